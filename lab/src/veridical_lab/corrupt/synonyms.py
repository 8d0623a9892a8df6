"""English words that may replace each other without changing the meaning of a sentence, as patterns and replacements.

The table is short, because each line must be safe. Each line restricts the context to one that preserves the meaning.
"""

from __future__ import annotations

import re

_NUMERAL = r"(?= (?:[0-9$£€]|two|three|four|five|six|seven|eight|nine|ten|half|an? (?:dozen|hundred|thousand|million)))"
_TABLE = rf"""
began to = started to
started to = began to
purchased = bought
bought = purchased
approximately{_NUMERAL} = about | around | roughly
about{_NUMERAL} = approximately | around
around{_NUMERAL} = about
roughly{_NUMERAL} = about
more than{_NUMERAL} = over
over{_NUMERAL} = more than
less than{_NUMERAL} = under
at least{_NUMERAL} = no fewer than
nearly{_NUMERAL} = almost
almost{_NUMERAL} = nearly
(?<=is |as |re )situated in = located in
(?<=is |as |re )located in = situated in
in order to = to
prior to = before
due to the = because of the
because of = due to
movie(?! (?:star|theat)) = film
movies = films
a film(?! festival) = a movie
the film(?! festival) = the movie
(?<=[Hh]e )died in = passed away in
(?<=[Ss]he )died in = passed away in
numerous = many
many(?= [a-z]+s\b(?<!ss)) = numerous
resided in = lived in
(?<=[Hh]e )lived in = resided in
frequently = often
often(?= [a-z]+ed\b) = frequently
assisted = helped
attempted to = tried to
tried to = attempted to
constructed = built
(?<=was )built = constructed
(?<=were )built = constructed
commenced = began
the entire = the whole
the whole(?= [a-z]+ (?:of|was|is)\b) = the entire
huge = enormous
enormous = huge
lawyer = attorney
attorney(?!s? general) = lawyer
physician = doctor
the United States(?! [A-Z]) = the US
the United Kingdom(?! [A-Z]) = the UK
the US(?! [A-Z]) = the United States
the UK(?! [A-Z]) = the United Kingdom
towards = toward
amongst = among
whilst = while
until = till
each year = every year
every year = each year
annually(?=[.,]) = every year
along with = together with
together with = along with
a number of(?= [a-z]+s\b) = several
several(?= [a-z]+s\b) = a number of
resulted in = led to
led to the = resulted in the
consists of = is made up of
shortly after = soon after
soon after = shortly after
in addition to = besides
despite = in spite of
in spite of = despite
although = though
at the age of(?= [0-9]) = aged
died aged = died at the age of
established in(?= [0-9]) = founded in
founded in(?= [0-9]) = established in
said that = stated that
stated that = said that
announced that = said that
also known as = also called
(?<=was )awarded the = given the
obtained = got
received a = was given a
ceased to = stopped
children = kids
(?<=[a-z] )however, = though,
a large number of = many
the majority of = most of
primarily = mainly
mainly = mostly
mostly = mainly
subsequently = later
the following year = the next year
the next year = the following year
some of the most = some of the
is home to = has
was home to = had
took part in = participated in
participated in = took part in
close to the = near the
near the(?! end) = close to the
currently = at present
at present = currently
nowadays = today
per year = a year
in total = altogether
as a result of = because of
with regard to = regarding
a variety of = various
such as = like
as of(?= [0-9]) = in
automobile = car
automobiles = cars
children's = kids'
requires = needs
required to = obliged to
sufficient = enough
wishes to = wants to
wished to = wanted to
utilised = used
utilized = used
additional = further
"""


SYNONYMS = tuple(
    (re.compile(rf"(?<![\w'’-]){old}(?![\w'’-])"), tuple(new.split(" | ")))
    for old, _, new in (line.rpartition(" = ") for line in _TABLE.strip().split("\n"))
)
"""For each line of the table, a pattern of whole words and its replacements."""

UNIT_FORMS = {
    "km": "kilometres", "cm": "centimetres", "mm": "millimetres", "m": "metres", "kg": "kilograms", "mi": "miles",
    "ft": "feet", "mph": "miles per hour", "km/h": "kilometres per hour", "%": " percent", "kilometres": "km",
    "kilometers": "km", "metres": "m", "meters": "metres", "centimetres": "cm", "centimeters": "cm",
    "kilograms": "kg", "percent": "%", "per cent": "%",
}  # fmt: skip
"""Units, each with another way to write it."""

# adverbs that can be dropped, except after a negation, which they may weaken
ADVERBS = "also very quite eventually subsequently famously notably officially really publicly subsequently".split()  # noqa: SIM905
OPENERS = ("However", "Moreover", "Furthermore", "Additionally", "In addition", "Nevertheless", "Similarly", "Also")

FRAMES = (
    "According to the text, ", "According to the article, ", "As the article says, ", "The article says that ",
    "The text states that ", "From the text we learn that ", "The source mentions that ", "As described, ",
    "Based on the text, ",
)  # fmt: skip
