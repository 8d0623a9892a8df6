"""Extract the text of uploaded documents, each in a process of its own.

If nobody waits for the text any more, the process is killed. Unlike a thread, a process can be ended at any point, even
in the native code of a parser, and its memory can be limited.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import sys
from email.message import Message
from pathlib import Path, PurePosixPath
from typing import Any

from veridical.io.files import NAME_ENCODING
from veridical.records.errors import InputError, VeridicalError, WireError
from veridical.server.batching import in_thread
from veridical.server.errors import Refused, status_of
from veridical.server.settings import Limits

_FORM = "multipart/form-data with one part called file"
_CHARSET = "save it as UTF-8, or name its encoding in the Content-Type of the part: text/plain; charset=windows-1252"


class Extraction:
    """Extracts the texts of uploaded documents (PDF, Word, …), each in a process of its own.

    At most `limits.documents` processes run at the same time.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._places = asyncio.Semaphore(limits.documents)

    async def document(self, content_type: str, upload: bytes) -> bytes:
        """Extract the text of the document in a multipart body, and return it as JSON.

        The JSON contains the name of the document without folders, its text, the number of characters, the positions
        where pages begin, and notes on what may be wrong with the text.

        Raises:
            Refused: The document cannot be parsed (422, or the status from `status_of`), or parsing takes longer than
                `limits.timeout` seconds (504).
        """
        limits = self._limits
        try:
            async with asyncio.timeout(limits.timeout), self._places:
                head = json.dumps([content_type, limits.document_memory, limits.timeout, limits.characters])
                answer = await self._run(head.encode() + b"\n" + upload)
        except TimeoutError:
            problem = f"reading the document took longer than {limits.timeout:g} s"
            raise Refused(504, problem, hint="a smaller document") from None
        try:
            document: dict[str, Any] = await in_thread(lambda: json.loads(answer))
        except ValueError:
            hint = "is it damaged, or does it need too much memory?"
            raise Refused(422, "the document cannot be read: its reader ended early", hint=hint) from None
        if "error" in document:
            raise Refused(document["status"], document["error"], hint=document["hint"])
        return answer

    async def _run(self, task: bytes) -> bytes:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "veridical.server.extraction"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C is for the service, which answers this request before it ends
        )
        try:
            return (await process.communicate(task))[0]
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()


async def _file(content_type: str, upload: bytes) -> tuple[str, bytes, str]:
    """Read the file in a multipart body: its name without folders, its bytes and its charset.

    Nothing is written to disk.
    """
    from starlette.datastructures import Headers, UploadFile
    from starlette.formparsers import MultiPartException, MultiPartParser

    async def chunks() -> Any:
        yield upload

    parser = MultiPartParser(Headers({"content-type": content_type}), chunks(), max_files=1, max_fields=1)
    parser.spool_max_size = len(upload) + 1
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise WireError(error.message, hint=_FORM) from None
    file = form.get("file")
    if not isinstance(file, UploadFile):
        raise InputError("no file", hint=_FORM)
    name = PurePosixPath((file.filename or "").replace("\\", "/")).name or "document"
    charset = Message()
    charset["content-type"] = file.content_type or ""
    return name, await file.read(), charset.get_content_charset() or "utf-8"


def _extracted(task: bytes) -> dict[str, Any]:
    from veridical.io.documents import document_of

    head, _, upload = task.partition(b"\n")
    content_type, memory, seconds, characters = json.loads(head)
    _limit(memory, math.ceil(seconds))
    try:
        name, data, charset = asyncio.run(_file(content_type, upload))
        document = document_of(data, Path(name), encoding=charset, max_characters=characters)
    except VeridicalError as error:
        hint = _CHARSET if error.hint == NAME_ENCODING else error.hint
        return {"status": status_of(error), "error": error.message, "hint": hint}
    except MemoryError:
        return {"status": 422, "error": "the document needs too much memory", "hint": "a smaller document"}
    text = document.text
    return {"name": name, "text": text, "characters": len(text), "pages": document.pages, "notes": document.notes}


def _limit(memory: int, seconds: int) -> None:
    """Limit the memory of this process, and its processor time in case the service dies and cannot kill the process."""
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_extracted(sys.stdin.buffer.read())))
    sys.stdout.flush()
    os._exit(0)  # nothing is left to clean up, and destructors of a broken document may take long
