"""Word lists for reading noun phrases: nouns for people and groups, names in the plural for one thing, vague words."""

from __future__ import annotations

from veridical_lab.corrupt.english import word_set

PEOPLE = word_set("""
man woman boy girl child son daughter father mother brother sister husband wife king queen prince princess emperor
empress duke count baron lord lady pope bishop priest monk nun saint general captain colonel admiral sergeant soldier
officer president minister secretary senator governor mayor judge lawyer attorney clerk doctor nurse surgeon patient
student pupil professor scholar author poet artist actress heir hero champion chief boss guard guest host friend enemy
ally opponent rival victim witness spy thief criminal chairman spokesman fisherman salesman nephew niece uncle aunt
cousin widow bride groom orphan slave knight nobleman merchant farmer driver guide chef coach cook peasant rebel
apprentice pilot assistant client customer citizen neighbour neighbor relative partner colleague successor predecessor
parent grandson granddaughter grandfather grandmother people men women children
analyst athlete candidate critic delegate expert graduate refugee representative resident rookie veteran
""")
NOT_PEOPLE = word_set("""
anchor anger answer banner barrier behavior behaviour bestseller boiler bomber border browser buffer bunker butter
cancer career carrier center centre chamber chapter character cluster color colour computer cooler copper corner
corridor counter cover crater cruiser cylinder danger destroyer diameter dinner disaster door elevator encounter
equator error escalator exterior factor favor favour fever fiber fibre fighter filter finger fist floor flavor flower
freezer freighter frontier gender ginger glacier harbor harbour helicopter honor honour humor humour hunger indicator
inner interior labor labour laser lever lower mirror list liter litre liver locker manner matter meteor meter metre
mist monster motor newspaper number october offer order outer paper parameter pepper pier poster power prequel printer
quarter reactor register remainder river rocker roller router rumor rumour scanner sector semester server shelter
shoulder silver spacer steamer summer tanker tender terror theater theatre thriller thunder tier timber timer tower
tractor trailer transfer trimester tumor twist upper vapor vector vigor waist water weather winter wonder wrist zipper
""")
GROUPS = word_set("""
administration agency airline alliance army association authorities authority band bank battalion board brigade bureau
cabinet charity choir church city clan club coalition college commission committee community company congress
corporation corps council country couple court crew crowd department division duo dynasty empire enemy family
federation firm fleet forces foundation gang government group guerrillas hospital household institute jury kingdom
label league majority manufacturer militia ministry mob museum nation navy network newspaper opposition orchestra
organisation organization parliament party police population public publisher quartet rebels regiment republic school
senate side society squadron staff state station studio team town tribe trio troops union university village
""")
ONE_THING = word_set("""
airlines airways brothers enterprises foods games holdings industries laboratories maldives motors nations netherlands
news partners philippines pictures records sciences sports states stores studios systems technologies times
""")
"""Words with a plural ending. A name that ends with one of them takes a singular verb."""
VAGUE = word_set("""
all another any anything both certain each either every everything fact facts few following former he her his it its
latter many most my neither no nobody nothing one ones only other our same several she some something such that their
these they this those what which whose your
""")
NEGATIONS = word_set("not n't n’t never no nor neither hardly barely scarcely rarely seldom")
