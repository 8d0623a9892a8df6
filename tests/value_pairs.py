"""Values and names in other forms: which say the same, which say less, and which say something else.

One line a pair: `a = b` say the same, `a < b` is supported by `b` and not the reverse, and neither of `a ≠ b` supports
the other. Each side is a text of its own.
"""

from __future__ import annotations

__all__ = ["DIFFERENT", "LESS", "SAME"]

_TABLE = """
# numbers in digits and words
1,200 = 1200
1.2 thousand = 1,200
7 = seven
twenty-one = 21
twenty one = 21
one hundred and five = 105
two hundred thousand = 200,000
a million = 1,000,000
5 million = 5,000,000
5m = 5,000,000
5bn = five billion
5k = 5,000
a dozen = 12
two dozen = 24
half a dozen = 6
half a million = 500,000
3 lakh = 300,000
2 crore = 20 million
10^6 = 10⁶
10^6 = a million
10⁶ = 1,000,000
10**6 = 10⁶
3 × 10⁶ = 3 million
3 x 10^6 = 3,000,000
1.5·10^-3 = 0.0015
10⁻³ = 0.001
-2 × 10^3 = -2000
3 × 10^3 m = 3 km
10⁶ ≠ 106
10⁶ ≠ 10⁷
10⁶ ≠ 10
10^6 ≠ 10
10⁶ ≠ 6
10^6 m ≠ 10^6 kg
−5 = -5
minus 5 = -5
–5 °C = -5 °C
minus five degrees Celsius = -5 °C
+5 % = 5 %
1,200 ≠ 1 and 200
3.5 ≠ 3 and 5
5 ≠ 3.5
200 ≠ 1,200
21 ≠ twenty and one
-5 ≠ 5
5 °C ≠ -5 °C
5 °C ≠ minus 5 °C
5 million ≠ 5 billion
5 thousand ≠ 5 million
a dozen ≠ two dozen
17 ≠ 70
thirteen ≠ thirty
1.05 ≠ 1.5
0.5 ≠ 5

fifteen hundred = 1,500
nineteen eighty-four = 1984
twenty ten = 2010
minus 5 degrees = -5 °C
Chapter IV = Chapter 4
World War II = the Second World War
fifteen hundred ≠ 15 and 100
nineteen eighty-four ≠ 1948
Chapter IV ≠ Chapter 6
World War II ≠ World War III

# marks inside numbers
1,5 = 1.5
12,75 = 12.75
0,125 = 0.125
1.234.567 = 1,234,567
1.234,56 = 1,234.56
1 234 = 1,234
1 234 567 = 1,234,567
1\u2009234 = 1234
1\u202f234,5 = 1,234.5
1\xa0234 = 1,234
1'234'567 = 1,234,567
$1,200.00 = $1200
1,5 ≠ 15
1,5 ≠ 1 and 5
1,234 ≠ 1.234
1\u2009234 ≠ 234
1 234 ≠ 1,243

# digits of other scripts
٢٠٢٤ = 2024
१२ = 12
１９９９ = 1999
৫ km = 5 km
٣٫٥ = 3.5
５０％ = 50 %
٢٠٢٤ ≠ 2023
१२ ≠ 13

# fractions
2½ = 2.5
2 1/2 = 2.5
two and a half = 2½
½ = half
1/2 = ½
½ kg = 500 g
¾ = three quarters
three-quarters = 75 %
a third = 33 %
one third = 33.3%
two-thirds = 67 %
⅔ = two thirds
a quarter of = 25 percent
one in four = 25 %
3 out of 4 = 75 %
half of = 50 %
half an hour = 30 minutes
an hour and a half = 90 minutes
two and a half years = 30 months
2½ ≠ 2
2½ ≠ 2.2
a third ≠ 30 %
a third ≠ two thirds
a third ≠ third
a quarter of ≠ 40 %
half an hour ≠ half a day
three quarters ≠ three
1/2 ≠ 1/3
one in four ≠ one in five

# shares
50% = 50 percent
50 per cent = 50%
33 % = 33%
25 basis points = 0.25 percentage points
50% ≠ 15%
5 < 5%
0.5% ≠ 5%
25 basis points ≠ 25 %

# money
$5m = 5 million dollars
US$5bn = $5 billion
£3.50 = 3.5 pounds
9 euros = 9 €
€9 = 9 €
€9 = 9 euros
EUR 9 = 9 €
9 EUR = €9
₹9 = 9 rupees
Rs 9 = ₹9
Rs. 500 = 500 rupees
₹5 crore = 50 million rupees
USD 20 = $20
CHF 20 = 20 Swiss francs
¥500 = 500 yen
50 cents = $0.50
50 pence = £0.50
# 42 million = £42 million
$ 42 million = $42m
£ 1.5 bn = £1.5bn
nine euros = €9
5 million < $5m
$1.2 billion ≠ $1.2 million
$5m ≠ £5m
€9 ≠ $9
9 euros ≠ 9 dollars
₹9 ≠ $9
50 cents ≠ $50
Rs 500 ≠ $500

99¢ = $0.99
5 euros and 50 cents = €5.50
five dollars and ten cents = $5.10
5 pounds 20 pence = £5.20
EUR 890.500.000 = 890,5 Millionen Euro
-$5 = minus $5
-$5 ≠ $5
5 euros and 50 cents ≠ €5.05

# units
2,048 MB = 2 GB
2 GB = 2,000 MB
30 s = 30 seconds
30 s ≠ 30 ms
5 km = 5 kilometres
5km = 5,000 m
5 < 5 km
30 °C = 30 degrees Celsius
30°C = 30 degrees C
2.54 cm = 25.4 mm
1 kg = 1,000 g
500 mg = 0.5 g
500 µg = 0.5 mg
1.5 l = 1,500 ml
2 litres = 2 L
20 m² = 20 square metres
20 km2 = 20 sq km
20 m^2 = 20 m²
20 km^2 = 20 square kilometres
20 m^3 = 20 cubic metres
200 ft² = 200 sq ft
20 m^2 ≠ 20 m
330¹ m = 330 m
330 m = 330² metres
1889³ = 1889
the tower² = the tower
330¹ m ≠ 3301 m
12 m² ≠ 12 m
3 kWh = 3 kilowatt-hours
10 m/s = 10 metres per second
5 ft 3 in = 63 inches
5'3" = 5 feet 3 inches
6 lb 4 oz = 100 ounces
100 km/h = 100 kilometres per hour
5 km ≠ 5 miles
2.54 m ≠ 2.54 cm
500 g ≠ 500 mg
500 mg ≠ 500 µg
1.5 l ≠ 1.5 ml
20 m² ≠ 20 m
100 km/h ≠ 100 mph
30 °C ≠ 30 °F
5 ft 3 in ≠ 5 ft 8 in
5 kWh ≠ 5 MWh

# numbers whose unit is in their key
40 euros = {"eur": 40}
€40 = _eur=40
1.5 seconds = "ms": 1500
1500 ms = {"ms": "1500"}
2 seconds = _s: 2
12 kg = 'kg': 12
$40 = {"price": 40}
40 euros = 'amount': 40
£2.50 = _fee=2.5
$41 ≠ {"price": 40}
three days = {"days": 3}
21 °C = "celsius": 21
-4 °C = "c": -4
8% = "percent": 8
40 < "eur": 40
40 dollars ≠ "eur": 40
1500 seconds ≠ "ms": 1500
40 euros ≠ "eur": "40-50"
# durations
two weeks = 14 days
23-year-old = 23 years old
a five-year plan = a 5-year plan
1h30 = 90 minutes
1h30 = 1 hour 30 minutes
1 h 30 min = 1.5 hours
1h30m = an hour and 30 minutes
2 minutes 5 seconds = 125 seconds
90 h = 90 hours
2 years and 3 months = 27 months
90 hours ≠ 90 minutes
1h30 ≠ 1h20
1 hour 30 minutes ≠ 30 minutes
1 hour 30 minutes ≠ 2 hours 30 minutes
3 days ≠ 3 weeks
120 days ≠ 120 months

# how often
twice a day = two times a day
twice daily = twice per day
once a week = weekly
twice a day ≠ once a day
twice a day ≠ twice a week

# dates and times
noon = 12:00
midnight = 00:00
noon ≠ midnight
05/01/2020 = 1 May 2020
05/01/2020 = 5 January 2020
05/01/2020 ≠ 2 May 2020
3 May 2021 = May 3, 2021
3rd of May 2021 = 2021-05-03
3 May 2021 = 2021-05-03
Sept 4 = 4 September
31/12/2021 = 31 December 2021
12/31/2021 = 31.12.2021
10:30 pm = 22:30
six < 6 a.m.
10 ≠ 10:30 pm
10.30am = 10:30 a.m.
14h30 = 14:30
12:30 pm = 12:30
7 pm = 19:00:00
08:30:00 PM = 20:30
3 May 2021, 7:05 pm = 2021-05-03T19:05:00.000+02:00
12:30 < 12:30:45
7 am ≠ 19:00:00
12:30:45 ≠ 12:30:46
the 1990s = the 90s
the 1990s = the 1990's
May 2021 < 3 May 2021
2021 < 2021-05-03
3 May < May 3rd, 2021
3 May 2021 ≠ 4 May 2021
3 May 2021 ≠ 3 June 2021
2021-05-03 ≠ 2021-05-04
31/12/2021 ≠ 30/12/2021
15:30 ≠ 14:30
15:30 ≠ 15 and 30
14:30 ≠ 2:30 am
10:30 pm ≠ 10:30 am
10:30 ≠ 10 and 30
the 1990s ≠ 1990
the 1990s ≠ the 1980s
the 1890s ≠ the 90s

# ranges and scores
2010-15 = 2010 to 2015
3–5 = 3-5
3–5 = 3 to 5
3-5 days = three to five days
between 3 and 5 days = 3–5 days
$3–5 million = $3 million to $5 million
3–5% = 3 % to 5 %
10,000-20,000 = 10,000 to 20,000
2010 < 2010–2015
2015 < 2010–15
3–5 < 3–5 days
3–5 ≠ 3
3–5 ≠ 5
3–5 ≠ 2-5
3–5 ≠ 4
3–5 days ≠ 3 days
3–5 days ≠ 5 days
3–5 days ≠ 3–5 hours
$3–5 million ≠ $3–5 billion
2-1 ≠ 1-2
2-1 ≠ 2 and 1
2010–15 ≠ 2010–16

# order, versions and codes
1st = first
twenty-first = 21st
v3.2.1 = 3.2.1
version 3.2.1 = v3.2.1
version 3.10 = 3.10
1st ≠ 1
3rd ≠ 4th
3.2.1 ≠ 3.1.2
version 3.2.1 ≠ version 3.1.2
version 3.1 ≠ version 3.10
v 1.2.3 ≠ v 1.2
B12 ≠ B6

# names and spellings
Obama's = Obama
U.S. = US
the U.N. = the UN
José Núñez = Jose Nunez
co-operate = cooperate
co operate = cooperate
health care = healthcare
Lib Dems = Liberal Democrats
Lib Dem = Liberal Democrat
Gen Sec = general secretary
naïve = naive
carport ≠ car. Port
Lib Dems ≠ Labour
Lib Dems ≠ Liberal Party
"""


def _pairs(sign: str) -> list[tuple[str, str]]:
    return [(a, b) for a, found, b in (line.partition(f" {sign} ") for line in _TABLE.split("\n")) if found]


SAME, LESS, DIFFERENT = _pairs("="), _pairs("<"), _pairs("≠")
