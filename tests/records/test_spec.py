from __future__ import annotations

import pytest

from veridical.records.errors import InputError
from veridical.records.spec import parse_spec


def test_options_without_a_colon_are_refused_with_the_way_to_write_them() -> None:
    with pytest.raises(InputError, match="options without a colon") as error:
        parse_spec("selfcheck,samples=4,max_tokens=40")
    assert "'selfcheck:samples=4,max_tokens=40'" in str(error.value)
