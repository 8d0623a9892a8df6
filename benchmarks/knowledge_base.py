"""How long retrieval from a knowledge base of 100,000 arguments takes, beside a linear scan of the same topics.

    python benchmarks/knowledge_base.py >> benchmarks/rows/knowledge-base.jsonl

Topics and arguments are made of words drawn by a seed, as often as natural words are (Zipf). One JSON row each.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from running import benchmark

from veridical.text.segment import words
from veridical.text.stemmer import stem
from veridical_lab.datasets.topics import Topic, make_topic
from veridical_lab.tasks.perspectives.knowledge_base import KnowledgeBase
from veridical_lab.tasks.perspectives.retrieval import retrieve

TOPICS, ARGUMENTS, VOCABULARY, QUERIES = 5_000, 20, 20_000, 200


def made_topics() -> Iterator[Topic]:
    draw = random.Random(0)
    syllables = [a + b for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "u")]
    vocabulary = ["".join(draw.choices(syllables, k=draw.randint(2, 4))) for _ in range(VOCABULARY)]
    weights = [1 / (rank + 10) for rank in range(VOCABULARY)]

    def text(length: int) -> str:
        return " ".join(draw.choices(vocabulary, weights, k=length)).capitalize() + "."

    for number in range(TOPICS):
        sides = {side: [[text(draw.randint(6, 20))] for _ in range(ARGUMENTS // 2)] for side in ("pro", "con")}
        yield make_topic(str(number), text(6), sides)


def scan(topics: Sequence[Topic], query: str) -> Topic:
    """The topic with most stems of the query in its text or in one of its arguments, looked for in all of them."""
    wanted = {stem(word.of(query).casefold()) for word in words(query)}

    def shared(text: str) -> int:
        return len(wanted & {stem(word.casefold()) for word in text.rstrip(".").split()})

    return max(topics, key=lambda topic: max(map(shared, (topic.text, *(a.text for a in topic.arguments)))))


def milliseconds(call: Callable[[str], object], queries: Sequence[str]) -> dict[str, float]:
    """Processor time of the calls, which is what they take on a machine that does nothing else."""
    times = []
    for query in queries:
        start = time.thread_time()
        call(query)
        times.append(1000 * (time.thread_time() - start))
    ordered = sorted(times)
    spread = {"p5": ordered[len(ordered) // 20], "p95": ordered[-len(ordered) // 20 - 1], "max": ordered[-1]}
    return {name: round(value, 3) for name, value in {"median": statistics.median(times), **spread}.items()}


@benchmark()
def main() -> Iterator[dict[str, object]]:
    topics = list(made_topics())
    draw = random.Random(1)
    chosen = draw.sample(topics, QUERIES)
    questions = [" ".join(draw.sample(topic.text.rstrip(".").lower().split(), 4)) for topic in chosen]
    of_arguments = [" ".join(draw.choice(topic.arguments).text.rstrip(".").lower().split()[:6]) for topic in chosen]
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        base = KnowledgeBase.build(Path(folder) / "made.kb", topics)
        build_seconds = round(time.perf_counter() - start, 2)
        retrieve(base, questions[0])
        found = sum(base.topic(q).id == t.id for q, t in zip(questions, chosen, strict=True))
        linear = milliseconds(lambda query: scan(topics, query), questions[:5])
        jobs: dict[str, tuple[Callable[[str], object], Sequence[str]]] = {
            "by id": (lambda query: retrieve(base, query, arguments=3), [topic.id for topic in chosen]),
            "by words of the topic": (lambda query: retrieve(base, query, arguments=3), questions),
            "by words of an argument": (lambda query: retrieve(base, query, arguments=3), of_arguments),
            "search of arguments": (base.search, of_arguments),
        }
        for what, (call, queries) in jobs.items():
            measured = milliseconds(call, queries)
            yield {
                "benchmark": "knowledge base of 100,000 arguments",
                "what": what,
                "arguments": base.size().arguments,
                "topics": base.size().topics,
                "queries": len(queries),
                "milliseconds": measured,
                "linear_scan_milliseconds": linear,
                "times_faster_than_linear_scan": round(linear["median"] / measured["median"], 1),
                "right_topic": found / len(questions),
                "build_seconds": build_seconds,
                "megabytes": round(base.path.stat().st_size / 1e6, 1),
            }
        base.close()


if __name__ == "__main__":
    main()
