"""The language that a text looks written in."""

from __future__ import annotations

import pytest

from veridical.text.languages import LANGUAGES, language_of


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The tower was built in 1889 and is 330 m tall.", "en"),
        ("La tour a été construite en 1889 et elle est haute de 330 m.", "fr"),
        ("La torre fue construida en 1889 y tiene una altura de 330 m.", "es"),
        ("A torre foi construída em 1889 e não tem mais do que 330 m de altura.", "pt"),
        ("La torre è stata costruita nel 1889 ed è alta 330 m.", "it"),
        ("DER TURM WURDE IM JAHR 1889 GEBAUT UND IST 330 M HOCH.", "de"),
        ("Tornet byggdes 1889 och är 330 meter högt.", "sv"),
        ("Torni rakennettiin vuonna 1889 ja se on 330 metriä korkea.", "fi"),
        ("Wieża została zbudowana w 1889 roku i ma 330 m wysokości.", "pl"),
        ("Kule 1889 yılında inşa edildi ve yüksekliği 330 metre olarak ölçüldü.", "tr"),
        ("Tháp được xây dựng vào năm 1889 và cao 330 m.", "vi"),
        ("Башня была построена в 1889 году, и её высота 330 метров.", "ru"),
        ("Вежу було збудовано в 1889 році, її висота 330 метрів.", "uk"),
        ("بُني البرج في عام 1889 وهو أعلى مبنى في المدينة.", "ar"),
        ("این برج در سال ۱۸۸۹ ساخته شد و بلندترین سازه شهر است.", "fa"),
        ("यह मीनार 1889 में बनी थी और 330 मीटर ऊँची है।", "hi"),
        ("这座塔建于1889年，高330米。", "zh"),
        ("この塔は1889年に建てられた。", "ja"),
        ("이 탑은 1889년에 세워졌다.", "ko"),
        ("Ο πύργος χτίστηκε το 1889.", "el"),
    ],
)
def test_a_sentence_is_enough(text: str, language: str) -> None:
    assert language_of(text) == language


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1889",
        "Paris",
        "…!",
        "Gustave Eiffel, Maurice Koechlin",
        "Sagrada Familia, La Rambla, Casa Batlló, Park Güell",
    ],
)
def test_too_little_is_undecided(text: str) -> None:
    assert language_of(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "Los Angeles and San Diego are in California, El Paso is not.",
        "A man in a red shirt was at the war museum, so he met the men.",
        "The dessert (杏仁豆腐) is made of kernels, which are often called almonds.",
        "José Mourinho said the café in São Paulo was closed.",
        "He read 'Die Zeit' and 'Der Spiegel' on the train to Cologne.",
    ],
)
def test_foreign_names_leave_a_text_english(text: str) -> None:
    assert language_of(text) == "en"


def test_markup_is_not_read() -> None:
    assert language_of("<ul>\n" + "<li><a href='#'>Welcome to it</a></li>\n" * 20 + "</ul>") == "en"


def test_more_than_the_beginning_of_a_long_text_is_read() -> None:
    english = "The committee met on Monday and agreed that the river should be cleaned. "
    russian = "Комитет собрался в понедельник и решил, что реку нужно очистить. "
    assert language_of(english * 15 + russian * 5000) == "ru"


def test_every_code_has_a_name() -> None:
    assert len(LANGUAGES) >= 50
    assert all(name[0].isupper() for name in LANGUAGES.values())
