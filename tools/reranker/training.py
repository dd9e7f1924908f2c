"""Train the network on a GPU: first a large teacher, then small students that imitate it."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from tools.reranker.export import quantize_rows
from tools.reranker.network import Network

OPENING, CLOSING = 101, 102
ASSISTANT, NO_AUTHOR = 1, 2
LENGTH = 72  # pieces of a query and a passage together


class Groups:
    """The training groups on the GPU. A batch is put together when it is needed."""

    def __init__(self, arrays: Mapping[str, Any], device: str) -> None:
        self.groups = torch.as_tensor(arrays["groups"].astype(np.int64), device=device)
        self._authors_of = torch.as_tensor(
            arrays["passage_authors"].astype(np.int64), device=device
        )
        assistant = arrays["assistant"]
        lists = {
            "queries": (arrays["queries"], arrays["queries_lengths"]),
            # The assistant and nobody are added to the authors.
            "authors": (
                np.concatenate([arrays["authors"], assistant]),
                np.append(arrays["authors_lengths"], [len(assistant), 0]),
            ),
            "passages": (arrays["passages"], arrays["passages_lengths"]),
        }
        self._author_count = len(arrays["authors_lengths"])
        self._lists = {}
        for name, (pieces, lengths) in lists.items():
            lengths = lengths.astype(np.int64)
            starts = np.cumsum(lengths) - lengths
            self._lists[name] = tuple(
                torch.as_tensor(each, device=device)
                for each in (pieces.astype(np.int64), starts, lengths)
            )

    def __len__(self) -> int:
        return len(self.groups)

    def batch(self, numbers: Tensor, length: int = LENGTH) -> tuple[Tensor, Tensor]:
        """Pieces and kinds of all pairs of some groups; the right passage of each comes first."""
        groups = self.groups[numbers]
        passages = groups[:, 2:]
        query = groups[:, :1].expand_as(passages).reshape(-1)
        prefix = groups[:, 1:2].expand_as(passages).reshape(-1)
        passages = passages.reshape(-1)
        author = self._authors_of[passages]
        author = torch.where(prefix == ASSISTANT, self._author_count, author)
        author = torch.where(prefix == NO_AUTHOR, self._author_count + 1, author)
        return self._join(query, author, passages, length)

    def _join(
        self, query: Tensor, author: Tensor, passage: Tensor, length: int
    ) -> tuple[Tensor, Tensor]:
        """`[CLS] query [SEP] author: passage [SEP]`, cut to the length."""
        place = torch.arange(length, device=query.device)[None, :]
        pieces = torch.zeros(len(query), length, dtype=torch.int64, device=query.device)
        pieces[:, 0] = OPENING
        start = torch.ones(len(query), 1, dtype=torch.int64, device=query.device)
        second = start
        for name, numbers in (("queries", query), ("authors", author), ("passages", passage)):
            values, starts, lengths = self._lists[name]
            size = lengths[numbers][:, None]
            if name == "passages":
                size = torch.minimum(size, length - 1 - start)
            inside = (place >= start) & (place < start + size)
            index = (starts[numbers][:, None] + place - start).clamp(0, len(values) - 1)
            pieces = torch.where(inside, values[index], pieces)
            start = start + size
            if name != "authors":
                pieces = torch.where(place == start, CLOSING, pieces)
                start = start + 1
            if name == "queries":
                second = start
        return pieces, (place >= second).long()


@dataclass(frozen=True, slots=True)
class Plan:
    """How one network is trained."""

    rate: float
    epochs: float
    groups_per_step: int = 96
    seed: int = 1
    imitation: float = 0.0
    """The share of the loss that compares with the teacher instead of the labels."""


def train(network: Network, groups: Groups, plan: Plan, teacher: Tensor | None = None) -> None:
    torch.manual_seed(plan.seed)
    device = groups.groups.device
    steps = int(plan.epochs * len(groups) / plan.groups_per_step)
    parameters = [p for p in network.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        parameters, lr=plan.rate, weight_decay=0.01, betas=(0.9, 0.98), fused=True
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, plan.rate, steps, pct_start=0.1)
    network.train()
    compiled = torch.compile(network)
    start = time.monotonic()
    order = torch.empty(0, dtype=torch.int64, device=device)
    for step in range(steps):
        if len(order) < plan.groups_per_step:
            order = torch.randperm(len(groups), device=device)
        numbers, order = order[: plan.groups_per_step], order[plan.groups_per_step :]
        loss = _loss(compiled, groups, numbers, plan, teacher)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()
        if step % 500 == 499:
            seconds = time.monotonic() - start
            log(f"  step {step + 1} of {steps}, loss {loss.item():.3f}, {seconds:.0f} s")
    network.eval()


def _loss(
    network: Network, groups: Groups, numbers: Tensor, plan: Plan, teacher: Tensor | None
) -> Tensor:
    pieces, kinds = groups.batch(numbers)
    with torch.autocast("cuda", torch.bfloat16):
        scores = network(pieces, kinds)
    scores = scores.float().view(len(numbers), -1)
    right = torch.zeros(len(numbers), dtype=torch.int64, device=scores.device)
    loss = functional.cross_entropy(scores, right)
    if teacher is None:
        return loss
    target = functional.softmax(teacher[numbers].float(), dim=1)
    imitation = functional.cross_entropy(scores, target)
    return plan.imitation * imitation + (1 - plan.imitation) * loss


@torch.no_grad()
def score_groups(network: Network, groups: Groups) -> Tensor:
    """The network's scores of every passage of every group."""
    parts = []
    numbers = torch.arange(len(groups), device=groups.groups.device)
    for part in numbers.split(1024):
        with torch.autocast("cuda", torch.bfloat16):
            scores = network(*groups.batch(part))
        parts.append(scores.float().view(len(part), -1))
    return torch.cat(parts)


TEACHERS = (Plan(1e-4, 2, seed=1), Plan(1e-4, 2, seed=2))
TEACHER_LAYERS = 12
STUDENT = Plan(2e-4, 4, imitation=0.7)
STUDENT_LAYERS = 6


def train_student(weights: Mapping[str, Any], arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Train two teachers, then a student that imitates the mean of their scores."""
    torch.set_float32_matmul_precision("high")
    tensors = {name: torch.as_tensor(array).float() for name, array in weights.items()}
    groups = Groups(arrays, "cuda")
    scores = []
    for plan in TEACHERS:
        log(f"Teacher: {plan}")
        teacher = Network(tensors, range(TEACHER_LAYERS)).cuda()
        train(teacher, groups, plan)
        scores.append(score_groups(teacher, groups))
    codes, scales = quantize_rows(weights["word"], 4)
    tensors["word"] = torch.as_tensor(codes * scales[:, None])
    log(f"Student: {STUDENT}")
    student = Network(tensors, range(STUDENT_LAYERS), hard=True).cuda()
    train(student, groups, STUDENT, torch.stack(scores).mean(0))
    return student.weights()


def log(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
