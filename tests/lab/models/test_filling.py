"""Words filled by masked and causal models: what is allowed, how it is chosen, and that batches change nothing."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from veridical.inference.local_model import LocalModel
from veridical.models.load import load, unload
from veridical.records.errors import InputError
from veridical.records.spans import Span
from veridical.text.segment import words
from veridical_lab.models import filling
from veridical_lab.models.filling import Filler, PieceSampling, _head_rows
from veridical_lab.models.testing import ENCODERS, tiny

TEXT = "The committee met in Paris on Monday; Anna Kowalska-Berg saw 1,250 cats, 'dogs' and the river in 1998."
GREEDY = PieceSampling(top_k=1)


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> LocalModel:
    return load(tiny("bert", tmp_path_factory.mktemp("bert"), head="MaskedLM"), dtype="fp32", kinds=("masked",))


@pytest.fixture(scope="module")
def causal(tmp_path_factory: pytest.TempPathFactory) -> LocalModel:
    return load(tiny("gpt2", tmp_path_factory.mktemp("gpt2")), dtype="fp32")


def spans_of(text: str, *phrases: str) -> list[Span]:
    return [Span(text.index(phrase), text.index(phrase) + len(phrase)) for phrase in phrases]


@pytest.mark.parametrize(
    ("sampling", "point", "chosen", "margin"),
    [
        (PieceSampling(top_k=1), 0.9, 7, 1.0),  # the likeliest; the next one is a logit less likely
        (PieceSampling(top_k=2), 0.0, 2, 0.2689),  # of 7 and 2 in the order of the pieces: 2 has 0.2689
        (PieceSampling(top_k=2), 0.9, 7, 0.6311),
        (PieceSampling(top_k=0, top_p=0.5), 0.9, 7, 0.1652),  # 7 alone has 0.6652
        (PieceSampling(top_k=0), 0.9999, 9, 0.0899),
    ],
)
def test_one_piece_is_chosen_and_by_how_much(sampling: PieceSampling, point: float, chosen: int, margin: float) -> None:
    values, pieces = np.array([0.0, -1.0, -2.0]), np.array([7, 2, 9])
    piece, by = sampling.choose(values, pieces, point)
    assert piece == chosen
    assert by == pytest.approx(margin, abs=1e-3)


def test_pieces_are_chosen_as_often_as_the_model_expects_them() -> None:
    values, pieces = np.log([0.5, 0.3, 0.15, 0.05]), np.array([3, 1, 0, 2])
    points = (np.arange(1000) + 0.5) / 1000
    chosen = [PieceSampling(top_k=3).choose(values, pieces, point)[0] for point in points]
    assert np.bincount(chosen, minlength=4) == pytest.approx(np.array([158, 316, 0, 526]), abs=1)


@pytest.mark.parametrize("wrong", [{"top_k": -1}, {"top_p": 0.0}, {"top_p": 1.1}])
def test_sampling_out_of_range(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match="top_k from 0"):
        PieceSampling(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["masked", "causal"])
def test_words_are_replaced_by_words_of_their_form(kind: str, request: pytest.FixtureRequest) -> None:
    filler = Filler(request.getfixturevalue(kind))
    phrases = ("committee", "Paris", "Anna Kowalska-Berg", "1,250", "dogs", "1998")
    gaps = filler.gaps(TEXT, spans_of(TEXT, *phrases))
    assert [span.of(TEXT) for span in gaps.spans] == list(phrases)
    assert gaps.split == 0
    for of_text in filler.fill([gaps] * 3, ["a", "b", "c"], 2):
        for filled in of_text:
            committee, paris, name, number, dogs, year = filled
            assert all(new != old for new, old in zip(filled, phrases, strict=True))
            assert committee.isalpha()
            assert dogs.isalpha()
            assert paris[0].isupper()
            assert len(year) == 4
            assert year.isdigit()
            assert len(number) == len("1,250")
            assert number[1] == ","
            assert name.count(" ") == name.count("-") == 1
            assert all(part[0].isupper() for part in name.replace("-", " ").split())


def test_the_likeliest_piece_is_that_of_a_plain_pass(masked: LocalModel) -> None:
    filler = Filler(masked, GREEDY)
    gaps = filler.gaps(TEXT, spans_of(TEXT, "cats", "river"))
    ((filled,),) = filler.fill([gaps], ["a"])
    tokenizer = masked.tokenizer
    # in the first round every piece of both words is masked
    ids = [1, *gaps.ids, 2]
    places = [at for runs in gaps.runs for _, first, size in runs for at in range(first + 1, first + size + 1)]
    for at in places:
        ids[at] = tokenizer.mask_token_id
    logits = masked.model(input_ids=torch.tensor([ids])).logits[0]
    for runs, word in zip(gaps.runs, filled, strict=True):
        first = runs[0][1]
        of_form, same = filler._forms.alternatives(gaps.ids[first])
        assert gaps.ids[first] in of_form[same]
        allowed = of_form[[i not in same for i in range(len(of_form))]]
        best = int(allowed[logits[first + 1][allowed].argmax()])
        assert word.startswith(tokenizer.convert_ids_to_tokens(best))


def test_pieces_of_one_form_share_what_may_stand_for_them(masked: LocalModel) -> None:
    forms = Filler(masked, GREEDY)._forms
    by_form: dict[int, int] = {}
    for piece in range(len(masked.tokenizer)):
        if forms.is_fillable(piece):
            of_form, same = forms.alternatives(piece)
            by_form[id(of_form)] = by_form.get(id(of_form), 0) + 1
            assert {forms.text([int(other)]).lower() for other in of_form[same]} <= {forms.text([piece]).lower()}
    assert len(by_form) < sum(by_form.values()) / 4


def test_a_causal_model_reads_what_is_left_of_a_word(causal: LocalModel) -> None:
    filler = Filler(causal, GREEDY)
    other = TEXT.replace("in 1998", "near France")

    def filled(text: str) -> str:
        return filler.fill([filler.gaps(text, spans_of(text, "Monday"))], ["a"])[0][0][0]

    assert filled(TEXT) == filled(other)
    assert filled(TEXT) != filled(TEXT.replace("committee", "dogs slept, and they"))


@pytest.mark.parametrize("architecture", [*ENCODERS, "gpt2", "llama"])
def test_the_head_computes_some_rows_only(architecture: str, tmp_path: Path) -> None:
    encoder = architecture in ENCODERS
    model = load(
        tiny(architecture, tmp_path, head="MaskedLM" if encoder else None), kinds=("masked", "causal"), dtype="fp32"
    )
    ids = torch.arange(5, 17).reshape(2, 6)
    with torch.inference_mode():
        full = model.model(input_ids=ids).logits.reshape(12, -1)
        with _head_rows(model, torch.tensor([7, 2])):
            some = model.model(input_ids=ids).logits
        assert model.model(input_ids=ids).logits.shape[:2] == (2, 6)
    assert torch.allclose(some, full[[7, 2]], atol=1e-5)
    unload(model)


@pytest.mark.parametrize("kind", ["masked", "causal"])
def test_a_batch_changes_nothing(kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With rounding much larger than a real one: choices that it could change are made from a pass alone."""
    model = request.getfixturevalue(kind)
    plain = Filler._logits
    texts = [TEXT.replace("committee", f"committee {i}") for i in range(8)]

    def noisy(self: Filler, positions: dict[tuple[int, ...], list[int]]) -> object:
        rng = np.random.default_rng(len(positions))  # what a sequence gets depends on which others there are
        for ids, logits in plain(self, positions):
            noise = 0.0 if len(positions) == 1 else 0.004
            yield ids, logits + torch.from_numpy(rng.uniform(-noise, noise, tuple(logits.shape)))

    monkeypatch.setattr(Filler, "_logits", noisy)

    def filled(batch: int, close: float) -> list[list[tuple[str, ...]]]:
        monkeypatch.setitem(filling._CLOSE, "fp32", close)
        filler = Filler(model, PieceSampling(top_k=0))
        gaps = [filler.gaps(text, [s for s in words(text) if len(s) > 3]) for text in texts]
        names = [str(i) for i in range(len(texts))]
        parts = [slice(at, at + batch) for at in range(0, len(texts), batch)]
        return [one for part in parts for one in filler.fill(gaps[part], names[part])]

    assert filled(8, 0.05) == filled(3, 0.05)
    assert filled(8, 0.0) != filled(3, 0.0)


def test_a_long_text_is_read_in_windows(masked: LocalModel, causal: LocalModel) -> None:
    text = " ".join(f"{TEXT} It is so." for _ in range(9))
    for model in (masked, causal):
        filler = Filler(model)
        gaps = filler.gaps(text, [span for span in words(text) if span.of(text) in ("river", "committee")])
        assert len(gaps.ids) > model.max_positions
        ((filled,),) = filler.fill([gaps], ["a"])
        assert len(filled) == len(gaps.spans) == 18
        assert not {"river", "committee"} & set(filled)


def test_what_the_tokenizer_does_not_keep_apart_is_counted(masked: LocalModel) -> None:
    text = "The river 猫犬 and the committee."  # unknown characters, and half of a token
    filler = Filler(masked)
    river = Span(text.index("river"), text.index("river") + 1)
    gaps = filler.gaps(text, [river, *spans_of(text, "猫犬", "committee")])
    assert [span.of(text) for span in gaps.spans][-1] == "committee"
    assert "猫犬" not in [span.of(text) for span in gaps.spans]
    assert gaps.split == 3 - len(gaps.spans) >= 1


def test_models_that_fill_nothing(tmp_path: Path, tiny_model: Callable[..., LocalModel]) -> None:
    with pytest.raises(InputError, match="fills words"):
        Filler(tiny_model("bert"))
    plain = load(tiny("modernbert", tmp_path), kinds=("masked",))
    with pytest.raises(InputError, match="has no mask"):
        Filler(plain)
    unload(plain)
