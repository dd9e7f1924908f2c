"""Coverage-guided fuzzing of everything that reads input from strangers.

    python tests/fuzz/fuzz.py [--seconds N] [TARGET...]

Each target runs in its own process for its share of the time. An input that fails is written to
`artifacts/fuzz/`, and the program exits with status 1. It needs atheris, which has wheels for
x86-64. On other machines it is built with clang:

    apt-get install clang libclang-rt-14-dev
    LIBFUZZER_LIB=$(find /usr/lib/llvm* -name 'libclang_rt.fuzzer_no_main*.a') \\
        CLANG_BIN=/usr/bin/clang CC=clang CXX=clang++ pip install atheris
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]
ARTIFACTS = FOLDER.parents[1] / "artifacts" / "fuzz"
SLOWEST_INPUT_SECONDS = 10
MOST_MEMORY_MIB = 1_500
_STATISTICS = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
_COVERAGE = re.compile(r"cov: (\d+)")


def run_target(name: str) -> None:
    """Fuzz one target in this process. libFuzzer reads its options from the command line."""
    import atheris

    with atheris.instrument_imports(include=["recollect"]):
        from targets import TARGETS
    # The first input may import libraries for seconds, which is not the fault of the input.
    TARGETS[name].run(b"")
    atheris.Setup([sys.argv[0], *sys.argv[3:]], TARGETS[name].run)
    atheris.Fuzz()


def fuzz(name: str, seconds: int) -> bool:
    """Run one target. Whether it failed."""
    with tempfile.TemporaryDirectory() as corpus:
        write_seeds(name, Path(corpus))
        command = [
            sys.executable,
            __file__,
            "--target",
            name,
            f"-max_total_time={seconds}",
            f"-timeout={SLOWEST_INPUT_SECONDS}",
            f"-rss_limit_mb={MOST_MEMORY_MIB}",
            f"-artifact_prefix={ARTIFACTS}/{name}-",
            "-print_final_stats=1",
            "-max_len=20000",
            corpus,
        ]
        process = subprocess.run(command, capture_output=True, text=True, errors="replace")
    report(name, process)
    return process.returncode != 0


def write_seeds(name: str, corpus: Path) -> None:
    from targets import TARGETS

    for number, path in enumerate(TARGETS[name].seed_files()):
        (corpus / f"seed-{number}").write_bytes(path.read_bytes())


def report(name: str, process: subprocess.CompletedProcess[str]) -> None:
    output = process.stdout + process.stderr
    runs = _STATISTICS.search(output)
    coverage = _COVERAGE.findall(output)
    count = int(runs[1]) if runs else 0
    reached = coverage[-1] if coverage else "0"
    state = "FAILED" if process.returncode else "ok"
    print(f"{name:18} {count:>10,} inputs {reached:>7} edges  {state}", flush=True)
    if process.returncode:
        print(output[-4000:])


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzz importers and parsers.")
    parser.add_argument("--seconds", type=int, default=3600, help="for all targets together")
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    arguments = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        print(f"atheris is not installed, so nothing was fuzzed.\n{__doc__}")
        return 2
    from targets import TARGETS

    names = arguments.targets or list(TARGETS)
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    share = max(5, arguments.seconds // len(names))
    failures = [name for name in names if fuzz(name, share)]
    return 1 if failures else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--target"]:
        run_target(sys.argv[2])
    else:
        sys.exit(main())
