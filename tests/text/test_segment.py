"""Sentences where a reader would cut, words where a reader would see them, and linear time on hostile text."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.text.segment import has_words, sentences, word_forms, words

# Each case is written with "|" where a sentence ends; the bars and the white space after them are not part of it.
ENGLISH = [
    "Hello world.| How are you?| Fine!",
    "A text with no final stop",
    "One.| Two",
    # titles, initials, names
    "Dr. Smith met Mrs. Jones and Prof. Lee.| They talked.",
    "Gen. Grant and Sen. Warren came.| Rev. King spoke.",
    "J. K. Rowling wrote it.| George W. Bush read it.",
    "J.R.R. Tolkien wrote it.| He was British.",
    "E. Sazhenova and I. Lebedev wrote it, K. Smith, I. Newton & A. Lee read it.| It was he and I.| Later we left.",
    "He took vitamin C.| It helped him.",
    "World War I.| The end.",
    "So did I.| Then we left.",
    "John Smith Jr. was there.| Martin Luther King Jr. spoke.",
    # abbreviations
    "We paid approx. 3.5 million, i.e. a lot, e.g. for cars.| Good.",
    "Cats vs. Dogs is a film.| See it.",
    "Apple Inc. and Google Co. compete.| Ford Corp. Chairman Lee agreed.",
    "He works for Apple Inc.| The company is large.",
    "Bring pens, paper, etc.| John will come.",
    "Fruits (apples, pears, etc.) are good.| Eat them.",
    "He lives on Main St. near Mt. Hood.| It is high.",
    "He lives in St. Louis.| She lives in Fargo.",
    "The U.S. President met U.N. officials.| He left.",
    "He lives in the U.S.| The country is large.",
    "She has a Ph.D. from MIT.| He has an M.A. in art.",
    "On Jan. 5 and Feb. 12 it rained.| On Sat. it did not.",
    "He sat.| John stood up.",
    "I like the sun.| John does not.",
    "She is from Washington, D.C.| He is not.",
    # numbers, versions, money, times, references
    "It costs $3.50 now.| It was $2.| Prices rise.",
    "Use version 1.2.3.| It is newer.",
    "Python 3.11 is out.| Use Python 3.| Then upgrade.",
    "It grew 5.2%.| That is a lot.",
    "We meet at 5 p.m. on Friday.| Come at 9 a.m. Monday.",
    "It opened at 9 a.m. EST.| We left at 5 p.m.| John stayed.",
    "It begins at 5 p.m.| The doors open at 4 p.m. sharp.",
    "See No. 5 and Fig. 3 on p. 12.| Then vol. II of it.",
    "He said no.| Then he left.",
    "She likes modern art.| Wait a sec.| Now go.",
    "As shown by Smith et al. (2020) it works.| Jones et al. [5] agree.",
    "It was shown by Smith et al.| The result holds.",
    "The result holds.[1]| Others disagree.[2, 3][7–9]| Fine.",
    "The result holds [1].| Others disagree (Lee, 2020).| Fine.",
    "There were 3.| Perhaps.",
    "It happened on 3. May in Berlin.| Then it stopped.",
    # quotation marks and brackets
    'He said "Stop!" and left.| She stayed.',
    '"I am here."| She smiled.',
    "“I am here.”| She smiled.",
    '"Why?" he asked.| "Because."',
    'He said "yes".| She left.',
    "(This is whole.)| Next one.",
    "It is (see above) true.| He (Mr. Lee) knows (why?) it.",
    "He asked “Is it 5 p.m.?”| She nodded.",
    "« Oui ! »| Elle part.",
    "»Ja.«| „Nein.“| Gut.",
    "Vraiment ?| Oui .| Bien",
    # stops in a row
    "What?!| No way!!!| Yes...| Good.",
    "Wait... what did he say?| Then… nothing.| Hm…| Well.",
    "He paused . . . and went on.| Good.",
    "Is it so?| yes it is.",
    "Wow!| that is big.",
    "[...]| The text goes on.",
    # addresses
    "Visit https://example.com/a.html?q=1.| Then write to a.b@c.org.| Thanks.",
    "See www.example.com/x?y for more.| Open main.py and README.md.| Run it.",
    "The file is at C:\\temp\\a.txt.| Open it.",
    # emoji, marks, mark-up
    "Great! 🎉| Next one. 👍🏽| Bye 👋 all.",
    "Cafe\u0301.| E\u0301cole.| No.",
    "**Note.**| This is *it.*| `Done.`| Bye.",
    "Hello. 🎉",
    # without capitals, as tokenised data sets have it
    "the man was arrested .| he was later released .| mr. smith agreed .",
    "i went home.| it was late.",
    # inline lists
    "Choose one: 1. Apples are red.| 2. Pears are green.",
    "1. First we go.| Then we stay.",
    "A. All of the above",
    "I. Introduction",
]
BLOCKS = [
    "Steps:\n|- first\n|- second one. |And more\n|- third",
    "* one\n|* two",
    "• one\n|• two\n\n|After",
    "1. Do this\n|2. Do that. |Then rest\n|10) Last",
    "a) one\n|b) two\n|(c) three\n|d. four",
    "(i) one\n|(ii) two",
    "[1] Smith, A title. |[2] Lee",
    "[1] Smith 2020\n|[2] Lee 2021",
    "- one\n  goes on here\n|- two",
    "✅ one\n|✅ two",
    "- [ ] open\n|- [x] done",
    "-not a list\n-but a soft break",
    "A soft\nbreak is white space. |Yes.\n|Dr.\nLee came.",
    "A soft\r\nbreak. |Next.\r\n\r\n|New paragraph\r\n|- item\r\n|- item",
    "A soft\rbreak\r\r|New",
    "Para one\n\n|Para two\n \t\n\n|Para three",
    "# Title\n|The text. |More.\n|## Part\n|Text",
    "**Title**\n|The text\n__bold__ goes on",
    "Title\n=====\n|The text",
    "Text\n---\n|More",
    "Results:\n|It works",
    "page one\f|page two\u2029|para\u2028soft\v|tab",
    "by\nJ. Smith and\n3.5 others",
    "\n\n  Leading and trailing  \n\n",
]
OTHER_SCRIPTS = [
    "我喜欢猫。|你呢？|很好！|真的吗？！|是",
    "他说：“你好。”|她笑了。",
    "“什么？”，他问。|她走了。",
    "圆周率是3.14。|对。",
    "圆周率是３．１４。|对．|好",
    "今日は雨です。|明日は？|「はい。」と言った。|「うん」",
    "मैं घर गया।|वह आया।| क्या हुआ?| ठीक है॥|अच्छा",
    "ما اسمك؟| اسمي علي.| شكرا!",
    "یہ ہے۔|وہ ہے۔",
    "ฉันชอบแมว เธอชอบหมา",
    "Ես գնացի։| Նա եկավ։",
    "ខ្ញុំទៅ។|គាត់មក",
    "Wir kommen z.B. am 3. Mai.| Am 5. Juni nicht.| Gut.",
    "¿Qué pasa?| ¡Nada!| Bien.",
    "Я дома.| А ты?| Да.",
    "안녕하세요.| 반갑습니다!| 네",
]


def expected(marked: str) -> tuple[str, list[str]]:
    """The text and its sentences from the notation with bars ("\\0|" is a bar of the text)."""
    pieces = [p.replace("\0", "|") for p in marked.replace("\0|", "\0").split("|")]
    return "".join(pieces), [piece.strip() for piece in pieces if piece.strip()]


@pytest.mark.parametrize("marked", [*ENGLISH, *OTHER_SCRIPTS, *BLOCKS])
def test_sentences_end_where_a_reader_ends_them(marked: str) -> None:
    text, wanted = expected(marked)
    assert [s.of(text) for s in sentences(text)] == wanted


def test_each_row_of_a_table_is_a_sentence() -> None:
    text = "Costs\n| a. B | b |\n| c | d |\nafter"
    assert [s.of(text) for s in sentences(text)] == ["Costs", "| a. B | b |", "| c | d |\nafter"]


def test_a_text_of_white_space_has_no_sentence() -> None:
    assert sentences("") == sentences(" \n\t\u3000") == []


CASES = [
    ("Don't pay 1,200.50 to O'Neil’s.", ["Don't", "pay", "1,200.50", "to", "O'Neil’s"]),
    ("rock'n'roll 'quoted' 5'3 the '90s", ["rock'n'roll", "quoted", "5", "3", "the", "90s"]),
    ("state-of-the-art snake_case a/b", ["state", "of", "the", "art", "snake", "case", "a", "b"]),
    ("1st 3rd v2 2.5kg 10%", ["1st", "3rd", "v2", "2.5kg", "10"]),
    ("Cafe\u0301 na\u00efve", ["Cafe\u0301", "na\u00efve"]),
    ("हिन्दी में", ["हिन्दी", "में"]),
    ("我喜欢iPhone手机。", ["我", "喜", "欢", "iPhone", "手", "机"]),
    ("か\u3099きょう・ー", ["か\u3099", "き", "ょ", "う", "ー"]),
    ("น้ำดี ๑๒", ["น้", "ำ", "ดี", "๑๒"]),
    ("안녕 세계", ["안녕", "세계"]),
    ("👍🏽 ok 🎉", ["ok"]),
    ("كتاب، قلم", ["كتاب", "قلم"]),
    ("", []),
    ("... --- !!!", []),
]


@pytest.mark.parametrize("text, wanted", CASES)
def test_words_are_what_a_reader_sees(text: str, wanted: list[str]) -> None:
    assert [s.of(text) for s in words(text)] == wanted


TEXT = st.text(
    st.one_of(
        st.sampled_from(" \n\r\t.!?…。！'’\"”»)([]-*#:1aAbI•|\u2029\f\u0301\u200d😀あ猫น้\u0964"), st.characters()
    ),
    max_size=60,
)


@given(TEXT)
def test_sentences_hold_every_solid_character_once_and_are_trimmed(text: str) -> None:
    found = sentences(text)
    assert all(a.end <= b.start for a, b in itertools.pairwise(found))
    assert all(s.of(text) and s.of(text) == s.of(text).strip() for s in found)
    held = {i for s in found for i in range(s.start, s.end)}
    assert all(i in held for i, character in enumerate(text) if not character.isspace())


@given(TEXT)
def test_words_are_sorted_disjoint_and_without_white_space(text: str) -> None:
    found = words(text)
    assert has_words(text) == bool(found)
    assert all(a.end <= b.start for a, b in itertools.pairwise(found))
    assert all(len(w) > 0 and not any(c.isspace() or c == "_" for c in w.of(text)) for w in found)
    assert all(any(c.isalnum() for c in w.of(text)) for w in found)


@given(TEXT)
def test_every_letter_and_digit_is_in_a_word(text: str) -> None:
    held = {i for w in words(text) for i in range(w.start, w.end)}
    assert all(i in held for i, character in enumerate(text) if character.isalnum())


@given(st.text("aZ09.,'_ -\n", max_size=40))
def test_a_character_beyond_ascii_elsewhere_changes_no_word(text: str) -> None:
    assert words(text + " é")[:-1] == words(text)


@given(st.text("aZ09.,'’_ -éß“0", max_size=40))
def test_a_mark_or_another_script_elsewhere_changes_no_word(text: str) -> None:
    """Texts with marks, or of scripts without spaces, take another pattern than those with accented letters."""
    assert words(f"{text} é")[:-1] == words(f"{text} e\u0301")[:-1] == words(f"{text} 中")[:-1]


@given(TEXT)
def test_words_as_texts_are_those_at_the_spans(text: str) -> None:
    assert word_forms(text) == [span.of(text) for span in words(text)]


@given(TEXT)
def test_words_do_not_depend_on_what_is_past_white_space(text: str) -> None:
    alone = [w.shift(2) for w in words(text)]
    assert words("é " + text)[1:] == alone


HOSTILE = [
    ".", "a.", "a. ", "Dr. ", "\n", " ", "word ", "x", "(", ".(", "\n- ", "\r", "'.\"", "**", "**a\n", "a:\n", "。",
    "。，", "!😀", "! 😀", "1.", "1,", "a'", "é", "\u0301", "__a", "\n" + " " * 1000, "#", "# \n", ".[1",
    ".[1,1,1,1", ". ", "…", "「", "😀", "-", "=", "[1]", "A. ", "p. 1 ", "\u2029", "|\n", "Dr.\n",
]  # fmt: skip


@pytest.mark.parametrize("unit", HOSTILE)
def test_a_long_hostile_text_takes_linear_time(unit: str) -> None:
    # quadratic work on this much text would take minutes
    text = unit * (300_000 // len(unit)) + "x"
    assert all(s.end <= len(text) for s in (*sentences(text)[-1:], *words(text)[-1:]))
    tail = "." + text
    assert sentences(tail)[-1].end == len(tail)
