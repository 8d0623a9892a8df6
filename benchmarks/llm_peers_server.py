"""The loopback server of `llm_peers.py`, and the texts of which it knows what a model would say of them.

Run by itself it answers on a free port of 127.0.0.1, which it prints, until it is killed: /N/v1 after N ms, /N/count/v1
also counts the words of prompts; /stats says what was seen since it was last asked.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from typing import Any

SAID = (
    ("was opened in", "1952 after a long dispute between two towns"),
    ("stands on", "the left bank of the river below the old mill"),
    ("counted", "118 otters between April and September"),
    ("is looked after by", "seven engineers from the nearest city"),  # the document says: two
    ("was closed for", "three winters because of floods"),
    ("sends", "its figures to the ministry once a month"),
    ("measures", "the water's height, warmth and salt"),
    ("will move to", "the new bridge when it is finished"),
)
WRONG = b"by seven engineers"
CLAIMS = len(SAID)
REST = (
    "The committee met on Monday and agreed that the river should be cleaned before the summer, if the rain allows it. "
)


def claims(r: int) -> list[str]:
    return [f"Station {r} {verb} {what}." for verb, what in SAID]


def response(r: int) -> str:
    """The claims as a text has them: after the first with a pronoun, so that none of those is found verbatim."""
    first, *others = claims(r)
    return " ".join([first, *(claim.replace(f"Station {r}", "It") for claim in others)])


def document(r: int) -> str:
    return REST * 8 + " ".join(claims(r)).replace("seven engineers", "two engineers") + " " + REST * 16


def answer(body: bytes) -> str:
    """What a model would say to the prompt in `body`, in the form that it asks for."""
    r = int((re.search(rb"Station (\d+)", body) or [b"", b"0"])[1])
    wrong = SAID.index(next(said for said in SAID if said[1].startswith("seven")))
    if b"StatementGeneratorOutput" in body:
        return json.dumps({"statements": claims(r)})
    if b"NLIStatementOutput" in body:
        why = "The context says so in the same words."
        made = [{"statement": c, "reason": why, "verdict": int(i != wrong)} for i, c in enumerate(claims(r))]
        return json.dumps({"statements": made})
    if b"'verdicts' key" in body:
        no = {"verdict": "no", "reason": "The context says two engineers, not seven."}
        return json.dumps({"verdicts": [no if i == wrong else {"verdict": "yes"} for i in range(CLAIMS)]})
    if b'\\"truths\\"' in body:
        return json.dumps({"truths": [c.replace("seven", "two") for c in claims(r)] + [REST.strip()]})
    if b'\\"claims\\"' in body:
        return json.dumps({"claims": claims(r)})
    if b"'reason' key" in body:
        return json.dumps({"reason": "The score is 0.88 because the number of engineers is two, not seven."})
    if b"You list the claims" in body:
        return "\n".join(f"- {claim}" for claim in claims(r))
    if b"claims to check are numbered" in body:
        return "\n".join(f"{i + 1}. {'No' if i == wrong else 'Yes'}" for i in range(CLAIMS))
    return "No" if WRONG in body else "Yes"


def completion(text: str) -> bytes:
    choice: dict[str, Any] = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": "stop",
        "logprobs": None,
    }
    if text in ("Yes", "No"):
        tokens = [text, "No" if text == "Yes" else "Yes", *(f"other{i}" for i in range(8))]
        top = [{"token": t, "logprob": -0.05 - 3.0 * i, "bytes": list(t.encode())} for i, t in enumerate(tokens)]
        choice["logprobs"] = {"content": [{**top[0], "top_logprobs": top}]}
    usage = {"prompt_tokens": 900, "completion_tokens": 40, "total_tokens": 940}
    document = {"id": "1", "object": "chat.completion", "created": 1, "model": "loopback", "usage": usage}
    return json.dumps({**document, "choices": [choice]}).encode()


def words(body: bytes) -> int:
    asked = json.loads(body)
    return sum(len(re.findall(r"\w+|[^\w\s]", _text(m["content"]))) for m in asked["messages"])


def _text(content: Any) -> str:
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


async def serve() -> None:
    seen: Counter[str] = Counter()
    begun = time.process_time()

    async def respond(path: str, body: bytes) -> bytes:
        nonlocal begun
        if path == "/stats":
            told = json.dumps({**seen, "cpu": time.process_time() - begun}).encode()
            seen.clear()
            begun = time.process_time()
            return told
        seen["calls"] += 1
        seen["now"] += 1
        seen["at_once"] = max(seen["at_once"], seen["now"])
        _, latency, count, *_ = path.split("/")
        if count == "count":
            seen["words"] += words(body)
        told = completion(answer(body))
        if latency != "0":
            await asyncio.sleep(int(latency) / 1000)
        seen["now"] -= 1
        return told

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = re.search(rb"(?i)content-length: *(\d+)", head)
                body = await reader.readexactly(int(size[1]) if size else 0)
                told = await respond(head.split(b" ", 2)[1].decode(), body)
                kind = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
                writer.write(b"%b%d\r\n\r\n%b" % (kind, len(told), told))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(connection, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve())
