"""How much time, memory and output a file may cost. All of them grow with its size."""

from __future__ import annotations

from dataclasses import dataclass

from recollect.settings import LIMITS

_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of one import. Sizes are in bytes, times in seconds."""

    cpu_seconds: float = LIMITS.parse_seconds
    cpu_seconds_per_megabyte: float = LIMITS.parse_seconds_per_megabyte
    memory: int = LIMITS.parse_memory_bytes
    memory_factor: int = LIMITS.parse_memory_factor
    largest_memory: int = LIMITS.document_memory_bytes
    output: int = LIMITS.parse_output_bytes
    output_factor: int = LIMITS.parse_output_factor
    idle_seconds: float = LIMITS.parse_idle_seconds
    """How long the process may neither compute nor report anything."""
    failure_seconds: float = LIMITS.parse_failure_seconds
    """What files that fail may cost together. Then the rest of the import is skipped."""

    def cpu_seconds_for(self, size: int) -> float:
        return self.cpu_seconds + self.cpu_seconds_per_megabyte * size / _MEGABYTE

    def memory_for(self, size: int) -> int:
        return min(self.memory + self.memory_factor * size, self.largest_memory)

    def output_for(self, size: int) -> int:
        return self.output + self.output_factor * size

    def waiting_seconds_for(self, size: int) -> float:
        """Wall-clock time without a report. Generous, since the computer may be busy."""
        return self.idle_seconds + 20 * self.cpu_seconds_for(size)
