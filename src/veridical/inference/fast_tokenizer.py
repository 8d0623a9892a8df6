"""Load a tokenizer from `tokenizer.json` without transformers.

`FastTokenizer` has only the methods that are needed to encode pairs. If `FastTokenizer.matches` returns True, the ids,
offsets and segment ids are the same as those of the Hugging Face class.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veridical.inference.local_model import require_models
from veridical.io.files import read_text
from veridical.io.strict_json import read_object
from veridical.records.errors import DataError
from veridical.records.strings import shorten

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENIZER = "tokenizer.json"
_UNBOUNDED = int(1e30)  # the Hugging Face classes' number for "no limit"
_LARGEST_ID = 2**31 - 1  # the arrays of ids are int32
_SPECIAL = ("bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id")


class FastTokenizer:
    """A tokenizer that is loaded from a Hugging Face folder with the `tokenizers` library alone, without transformers.

    It can be called like a Hugging Face tokenizer. Truncation and padding that were saved in the folder are switched
    off.

    Args:
        folder: A folder with `tokenizer.json`. The roles of special tokens, such as padding, are loaded from
            `tokenizer_config.json` and `special_tokens_map.json`, if they exist.

    Attributes:
        model_max_length: The maximum number of tokens in an input of the model. About 10^30 if the folder states no
            limit.
        chat_template: The chat template, or None.
        bos_token_id: The id of the begin-of-text token, or None.
        eos_token_id: The id of the end-of-text token, or None.
        pad_token_id: The id of the padding token, or None.
        sep_token_id: The id of the separator token, or None.

    Raises:
        DataError: A file is missing or cannot be parsed.
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
            raise DataError(f"cannot be read: {shorten(str(error), 200)}", path=path, hint="copy it again") from None
        self._backend.encode_special_tokens = True
        config: dict[str, Any] = {}
        for name in ("special_tokens_map.json", "tokenizer_config.json"):
            config |= _object(self.folder / name)
        longest = config.get("model_max_length")
        self.model_max_length = int(longest) if longest and isinstance(longest, int | float) else _UNBOUNDED
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
        """A second tokenizer that reads special tokens as such, so that no call has to change the first one."""
        return plain_backend(self._backend.to_str())

    @cached_property
    def _special(self) -> list[str]:
        """The special tokens in lower case."""
        return [token.content.lower() for token in self.added_tokens_decoder.values() if token.special]

    @cached_property
    def added_tokens_decoder(self) -> dict[int, Any]:
        """The tokens that were added to the vocabulary, by id. `special` of a token says if it is a special token."""
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
        """Tokenise a text, a pair of texts, or a batch of texts, with the same results as a Hugging Face tokenizer.

        Args:
            text: One text, or a batch of texts.
            text_pair: The second text of a pair.
            add_special_tokens: If true, special tokens are added around the text.
            split_special_tokens: If true, a special token that is written in the text, such as "</s>", is tokenised as
                plain characters. If false, it becomes the special token.

        Returns:
            A dictionary with "input_ids", "token_type_ids" and "offset_mapping". Each is a list for one text or pair,
            and a list of lists for a batch.

        Raises:
            DataError: The library fails on a text, or gives a token an id above 2^31 - 1.
        """
        one = isinstance(text, str)
        batch = [(text, text_pair) if text_pair else text] if one else list(text)
        backend = self._backend
        if not split_special_tokens:
            written = f"{text if one else ' '.join(text)} {text_pair or ''}".lower()
            if any(token in written for token in self._special):  # the markup backend is slow to make
                backend = self._markup_backend
        try:
            encodings = backend.encode_batch(batch, add_special_tokens=add_special_tokens)
        except BaseException as error:
            panic = type(error).__name__ == "PanicException"  # of the library; it is no `Exception`
            if not panic and type(error) is not Exception:
                raise
            raise DataError(f"cannot read a text: {shorten(str(error), 200)}", path=self.folder / TOKENIZER) from None
        largest = max((max(encoding.ids, default=0) for encoding in encodings), default=0)
        if largest > _LARGEST_ID:
            raise DataError(f"a token has the id {largest}", path=self.folder / TOKENIZER, hint="copy it again")
        columns: dict[str, list[Any]] = {
            "input_ids": [encoding.ids for encoding in encodings],
            "token_type_ids": [encoding.type_ids for encoding in encodings],
            "offset_mapping": [encoding.offsets for encoding in encodings],
        }
        return {name: values[0] for name, values in columns.items()} if one else columns

    def apply_chat_template(self, turns: list[dict[str, str]], **options: Any) -> Any:
        """Render a conversation with the folder's chat template, for which transformers is needed.

        Args:
            turns: The messages, each with its "role" and "content".
            options: Passed to the method of the same name of the transformers tokenizer.

        Raises:
            MissingExtraError: transformers is not installed.
        """
        require_models(f"the chat template of {self.folder}")
        import transformers

        tokenizer = transformers.AutoTokenizer.from_pretrained(
            self.folder, local_files_only=True, trust_remote_code=False
        )
        return tokenizer.apply_chat_template(turns, **options)

    def matches(self, tokenizer: Any) -> bool:
        """Check whether a Hugging Face tokenizer tokenises as this one does, so that this one can replace it.

        They can differ because some Hugging Face classes change the settings in `tokenizer.json`.
        """
        roles = all(getattr(self, name) == getattr(tokenizer, name) for name in _SPECIAL)
        return roles and self._backend.to_str() == plain_backend(tokenizer.backend_tokenizer.to_str()).to_str()


def plain_backend(document: str) -> Tokenizer:
    """Build a tokenizer from the content of a `tokenizer.json`, with truncation and padding switched off."""
    from tokenizers import Tokenizer

    backend = Tokenizer.from_str(document)
    backend.no_truncation()
    backend.no_padding()
    return backend


def _object(path: Path) -> dict[str, Any]:
    """Read the JSON object in a file, or return an empty one if there is no file."""
    return read_object(path) if path.is_file() else {}
