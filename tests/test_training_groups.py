"""The training groups of the reranker do not change with the search (`tools/train_reranker.py`)."""

from __future__ import annotations

from pathlib import Path

from tools.reranker.corpora import parse
from tools.reranker.groups import GroupWriter, wrong_passages
from tools.train_reranker import SEED, digest

SAMPLE = Path(__file__).parent / "data" / "reranker" / "talk.md"
SAMPLE_SHA256 = "e43924e472e84bf3b568e001f04f043067e2b8f7ce9c1b919ea3938a3a49dc88"


def test_a_sample_gives_the_same_groups() -> None:
    """If this fails, `prepare` no longer makes the groups that the model was trained on.

    Give the tool its own copy of the function that has changed.
    """
    corpus = parse("changelog", {SAMPLE.name: SAMPLE.read_bytes()}, SEED)
    writer = GroupWriter(SEED)
    writer.add(corpus, wrong_passages(corpus, SEED))
    arrays = writer.arrays()
    assert len(arrays["groups"]) > 20
    assert digest(arrays) == SAMPLE_SHA256
