"""A `tokenizer.json` without transformers: what reading pairs needs of a Hugging Face tokenizer, and nothing else.

Ids, characters and segment ids are those of the Hugging Face class wherever `matches` says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veridical.core.errors import DataError, WireError
from veridical.core.files import read_text
from veridical.core.serialization import parse
from veridical.models.load import require_models

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["TOKENIZER", "FastTokenizer", "plain_backend"]

TOKENIZER = "tokenizer.json"
_UNBOUNDED = int(1e30)  # what the Hugging Face classes write where there is no limit
_SPECIAL = ("bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id")


class FastTokenizer:
    """The tokenizer in a Hugging Face folder, by the `tokenizers` library alone.

    Truncation and padding that were saved in it are off.

    Args:
        folder: A folder with `tokenizer.json`, and `tokenizer_config.json` where special tokens have a role.

    Attributes:
        model_max_length: The most tokens that its model reads; a huge number where it names none.
        chat_template: Its chat template, or None.
        bos_token_id: What a text begins with, or None; in the same way `eos_token_id`, `pad_token_id`, `sep_token_id`.

    Raises:
        DataError: If a file is missing or cannot be read.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        path = self.folder / TOKENIZER
        if not path.is_file():
            raise DataError(f"no {TOKENIZER} in it", path=self.folder, hint="copy it from the model's own folder")
        try:
            self._backend = plain_backend(read_text(path))
        except DataError:
            raise
        except Exception as error:  # noqa: BLE001 - the library raises nothing more specific
            raise DataError(f"cannot be read: {error}", path=path, hint="copy it again") from None
        self._backend.encode_special_tokens = True
        config: dict[str, Any] = {}
        for name in ("special_tokens_map.json", "tokenizer_config.json"):
            config |= _object(self.folder / name)
        self.model_max_length = int(config.get("model_max_length") or _UNBOUNDED)
        template = self.folder / "chat_template.jinja"
        self.chat_template = read_text(template) if template.is_file() else config.get("chat_template")
        ids = {}
        for name in _SPECIAL:
            token = config.get(name.removesuffix("_id"))
            text = token.get("content") if isinstance(token, dict) else token
            ids[name] = None if text is None else self._backend.token_to_id(str(text))
        self.bos_token_id, self.eos_token_id, self.pad_token_id, self.sep_token_id = ids.values()

    @property
    def backend_tokenizer(self) -> Tokenizer:
        """The tokenizer of the `tokenizers` library."""
        return self._backend

    @cached_property
    def _markup_backend(self) -> Tokenizer:
        """The one in which special tokens stand for themselves: apart, so that no call changes what another uses."""
        return plain_backend(self._backend.to_str())

    @cached_property
    def _special(self) -> list[str]:
        """The special tokens in small letters."""
        return [token.content.lower() for token in self.added_tokens_decoder.values() if token.special]

    @cached_property
    def added_tokens_decoder(self) -> dict[int, Any]:
        """The added tokens by id; each knows whether it is `special`."""
        return dict(self._backend.get_added_tokens_decoder())

    def __call__(
        self,
        text: str | Sequence[str],
        text_pair: str | None = None,
        *,
        add_special_tokens: bool = True,
        split_special_tokens: bool = False,
        **_: Any,
    ) -> dict[str, Any]:
        """The tokens of a text, of a pair, or of each of several texts, as a Hugging Face tokenizer returns them.

        Args:
            text: One text, or several.
            text_pair: The second text of a pair.
            add_special_tokens: Whether special tokens are put around.
            split_special_tokens: Whether special tokens that are written out in the text are plain characters.

        Returns:
            "input_ids", "token_type_ids" and "offset_mapping": lists, of several texts lists of lists.
        """
        one = isinstance(text, str)
        batch = [(text, text_pair) if text_pair else text] if one else list(text)
        backend = self._backend
        if not split_special_tokens:
            written = f"{text if one else ' '.join(text)} {text_pair or ''}".lower()
            if any(token in written for token in self._special):  # it takes as long to make as this one to load
                backend = self._markup_backend
        encodings = backend.encode_batch(batch, add_special_tokens=add_special_tokens)
        columns: dict[str, list[Any]] = {
            "input_ids": [encoding.ids for encoding in encodings],
            "token_type_ids": [encoding.type_ids for encoding in encodings],
            "offset_mapping": [encoding.offsets for encoding in encodings],
        }
        return {name: values[0] for name, values in columns.items()} if one else columns

    def apply_chat_template(self, turns: list[dict[str, str]], **options: Any) -> Any:
        """As the Hugging Face class renders a conversation, which takes transformers (`MissingExtraError`)."""
        require_models(f"the chat template of {self.folder}")
        import transformers

        return transformers.AutoTokenizer.from_pretrained(self.folder, local_files_only=True).apply_chat_template(
            turns, **options
        )

    def matches(self, tokenizer: Any) -> bool:
        """Whether a Hugging Face tokenizer is the same: some classes change what they read from `tokenizer.json`."""
        roles = all(getattr(self, name) == getattr(tokenizer, name) for name in _SPECIAL)
        return roles and self._backend.to_str() == plain_backend(tokenizer.backend_tokenizer.to_str()).to_str()


def plain_backend(document: str) -> Tokenizer:
    """The tokenizer of a JSON document without the truncation and padding that a last call may have left in it."""
    from tokenizers import Tokenizer

    backend = Tokenizer.from_str(document)
    backend.no_truncation()
    backend.no_padding()
    return backend


def _object(path: Path) -> dict[str, Any]:
    """The JSON object in a file; empty where there is none."""
    try:
        return dict(parse(read_text(path))) if path.is_file() else {}
    except WireError as error:
        raise DataError(error.message, path=path) from None
