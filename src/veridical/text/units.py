"""Tables of units and currencies: their spellings, their sizes, and the record keys that name them."""

from __future__ import annotations

from fractions import Fraction

_SIGNS = "us$ usd, $ usd, a$ aud, c$ cad, nz$ nzd, hk$ hkd, s$ sgd, r$ brl, £ gbp, € eur, ¥ jpy, ₹ inr, ₩ krw, ₽ rub, "
_SIGNS += "₺ try, ₴ uah, ₪ ils, ₫ vnd, ₦ ngn, ₱ php, ฿ thb, rs inr, rs. inr"
CURRENCY_SIGNS = dict(pair.split() for pair in _SIGNS.split(", "))
"""The code of the currency that each sign stands for, such as "usd" for "$"."""
CURRENCY_CODES = tuple(
    "usd eur gbp jpy inr cny chf aud cad nzd hkd sgd sek nok dkk krw pln brl zar mxn".split()  # noqa: SIM905
)
"""The currency codes that are recognised in texts."""
CURRENCIES = frozenset({*CURRENCY_SIGNS.values(), *CURRENCY_CODES})
"""The codes of all currencies that can occur in the key of a value, such as "q:usd:5"."""

# Spellings of a unit = the dimension and the size in base units, as an exact fraction; "|" before another meaning.
_UNIT_TABLE = """
mm millimetre millimetres millimeter millimeters = length 1/1000
cm centimetre centimetres centimeter centimeters = length 1/100
m metre metres meter meters = length 1
km kms kilometre kilometres kilometer kilometers = length 1000
inch inches = length 127/5000
ft foot feet = length 381/1250
yd yds yard yards = length 1143/1250
mi mile miles = length 201168/125
cm² cm2 cm^2 sq_cm square_centimetres square_centimeters = area 1/10000
m² m2 m^2 sq_m sqm square_metre square_metres square_meter square_meters = area 1
km² km2 km^2 sq_km square_kilometre square_kilometres square_kilometer square_kilometers = area 1000000
ha hectare hectares = area 10000
acre acres = area 316160658/78125
ft² ft2 ft^2 sq_ft square_foot square_feet = area 145161/1562500
sq_mi square_mile square_miles = area 40468564224/15625
ml millilitre millilitres milliliter milliliters = volume 1/1000
cl centilitre centilitres centiliter centiliters = volume 1/100
l litre litres liter liters = volume 1
m³ m3 m^3 cubic_metre cubic_metres cubic_meter cubic_meters = volume 1000
µg μg mcg microgram micrograms = mass 1/1000000
mg milligram milligrams = mass 1/1000
g gram grams gramme grammes = mass 1
kg kgs kilo kilos kilogram kilograms kilogramme kilogrammes = mass 1000
tonne tonnes = mass 1000000
oz ounce ounces = mass 45359237/1600000
lb lbs = mass 45359237/100000
stone = mass 317514659/50000
ms millisecond milliseconds = time 1/1000
s sec secs second seconds = time 1
min mins minute minutes = time 60
h hr hrs hour hours = time 3600
day days = time 86400
week weeks = time 604800
month months = month 1
yr yrs year years = month 12
decade decades = month 120
°c ℃ degrees_celsius degrees_centigrade degrees_c = celsius 1
°f ℉ degrees_fahrenheit degrees_f = fahrenheit 1
° degree degrees = degree 1 | celsius 1 | fahrenheit 1
mph miles_per_hour miles_an_hour = mph 1
km/h kmh kph km_per_hour kilometres_per_hour kilometers_per_hour kilometres_an_hour kilometers_an_hour = kmh 1
m/s metres_per_second meters_per_second = speed 1
wh watt_hour watt_hours = energy 1
kwh kilowatt_hour kilowatt_hours = energy 1000
mwh megawatt_hour megawatt_hours = energy 1000000
kw kilowatt kilowatts = power 1
mw megawatt megawatts = power 1000
gw gigawatt gigawatts = power 1000000
kb kilobyte kilobytes = data 1
mb megabyte megabytes = data 1000
gb gigabyte gigabytes = data 1000000
tb terabyte terabytes = data 1000000000
hz hertz = frequency 1
khz kilohertz = frequency 1000
mhz megahertz = frequency 1000000
ghz gigahertz = frequency 1000000000
kcal kilocalorie kilocalories = kcal 1
% percent per_cent pct pc percentage_point percentage_points = percent 1
basis_point basis_points bps = percent 1/100
$ dollar dollars us_dollars = usd 1
cent cents ¢ = usd 1/100 | eur 1/100
£ pounds_sterling = gbp 1
pence = gbp 1/100
€ euro euros = eur 1
¥ yen = jpy 1
₹ rupee rupees = inr 1
rouble roubles ruble rubles = rub 1
yuan renminbi rmb = cny 1
swiss_franc swiss_francs = chf 1
pound pounds = gbp 1 | mass 45359237/100000
"""
UNITS: dict[str, list[tuple[str, Fraction]]] = {}
"""The possible meanings of each spelling of a unit: its dimension or currency, and its size in base units."""
for _line in _UNIT_TABLE.split("\n"):
    _names, _, _meanings = _line.partition(" = ")
    for _name in _names.split():
        _pairs = (meaning.split() for meaning in _meanings.split("|"))
        UNITS[_name.replace("_", " ")] = [(kind, Fraction(size)) for kind, size in _pairs]
UNITS |= {code: [(code, Fraction(1))] for code in CURRENCY_CODES}

# Units at the end of keys in JSON and settings: "price_eur", "duration_ms", {"days": 3}. Names that have another
# meaning in keys are left out: "min" may be a minimum, and "month": 5 is May.
_NO_KEY_UNITS = {"min", "mins", "second", "minute", "hour", "day", "week", "month", "year", "decade", "degree", "stone"}
KEY_UNITS = {
    name.replace(" ", "_"): name
    for name in UNITS
    if name.replace(" ", "").isalnum() and name.isascii() and name not in _NO_KEY_UNITS
}
KEY_UNITS |= {"s": "sec", "percentage": "percent", "c": "°c", "celsius": "°c", "f": "°f", "fahrenheit": "°f"}
# keys for money that do not name a currency: "price": 40 supports "40 euros" as well as "$40"
_MONEY_KEYS = "amount balance bill budget charge cost costs deposit discount fare fee fees income payment price prices "
_MONEY_KEYS += "refund rent revenue salary sales spend subtotal tax total wage"
KEY_UNITS |= dict.fromkeys(_MONEY_KEYS.split(), "")
"""The unit in `UNITS` that the end of a record's key names, or "" for money without a currency."""
