"""Texts for the tests of crossed examples, and their parses in `parses/`, which need no pipeline to be read.

To make the parses again: `python -m tests.lab.corrupt.crossed.texts PIPELINE`, with the folder of en_core_web_sm.
"""

import sys
from pathlib import Path

PARSES = Path(__file__).parent / "parses"

TEXTS = [
    # who did it to whom, voices, converses
    "Anna Berg defeated Eva Holm in the final of 2011. The final was played in Oslo. Many people watched it.",
    "Paul Moore was hired by the Acme Company in May. The Acme Company makes chairs. It was founded long ago.",
    "Maria Lopez taught Ivan Petrov at the school. Later that year the school closed. The town sold the building.",
    "The Swedish army attacked the Danish fleet near the coast. The weather was bad. Nobody expected the attack.",
    "Mark Stone was born in Dublin. He criticised Peter Long in a speech. The speech was printed in two papers.",
    "Helen Ward bought the painting from Simon Fox. The painting shows a harbour. It hangs in the library today.",
    "Oskar Lind was the father of Sara Lind. Both lived in Bergen. Their house burned down in the great fire.",
    # causes and order
    "The match was cancelled because the field was wet. The visitors went home by bus. A new date was found soon.",
    "The bridge was closed. As a result, the drivers took the ferry. The ferry was full on most days.",
    "The river rose quickly, so the village moved its animals to the hill. The water fell after a week.",
    "Late payment leads to a check. The office sends a letter. Most customers answer the letter within a week.",
    "The flight was delayed because of a storm. The passengers waited in the hall. Coffee was free for all of them.",
    "Peter Long sold the farm before the war began. The farm had forty cows. A neighbour took most of them.",
    "After leaving the army, Mark Stone opened a bakery. The bakery stood near the church. It had three rooms.",
    "The factory opened in 1911. It made glass for lamps. The owner closed the factory in 1934.",
    "The driver stopped the bus and then called the police. The police came at once. No passenger was hurt.",
    # certainty
    "The museum owns a copy of the letter. The letter has four pages. A visitor found it in an old desk.",
    "The painter may have visited Paris in 1889. The journey is mentioned in one letter. The letter was lost.",
    "The company plans to open a shop in Rome. The rent is high there. The owner speaks Italian.",
    "The minister said that the tax was too high. The party disagreed. The newspapers reported the debate.",
    "The critic believed that the poem was a joke. The poet never answered. The magazine printed both texts.",
    # what belongs together
    "Anna Berg won the first prize for a novel. In 2004, Eva Holm moved to a farm near Lund. The farm was cheap.",
    "Carl Nord founded a school in Malmo. The school had two teachers. Nina Dahl wrote a book about birds.",
    "The tower was built in 1820. The roof of the church was repaired in 1954. Both stand on the main square.",
    # how many
    "The workers left the village in spring. The road was open again. A truck carried the furniture.",
    "Most birds leave the island in autumn. The winter is cold there. A few people feed the others.",
    "Paul Moore and Helen Ward signed the contract. The contract is two pages long. The lawyer kept a copy.",
    "The club has more than 500 members. The fee is low. The members meet on Fridays.",
    "Simon Fox paid the bill for the dinner. The dinner was good. The cook came from Lyon.",
    # negation
    "The hall was painted in white. The door was repaired by a carpenter. The work took a month.",
    "The team failed to reach the summit. The snow was deep. The guide had warned the climbers.",
    "Sara Lind left the hotel without paying the bill. The owner called the police. The bill was small.",
    "The singer never returned to the city. The theatre kept her dress. Visitors can see it today.",
    "The mine no longer employs miners. The last shift was in March. The lift is used for visitors.",
    "The festival attracts not only tourists but also artists. The town pays for the stage. The tickets are free.",
    # lists and comparison
    "The kit contains a knife, a rope and a lamp. The lamp needs oil. The box is made of tin.",
    "Anna Berg, Carl Nord and Nina Dahl opened a restaurant. The restaurant serves fish. It is closed on Sundays.",
    "The tower is taller than the church. The church is older. Both can be seen from the sea.",
    "Lake Vesper is the deepest lake in the region. The water is clear. Boats are not allowed.",
    "Eva Holm scored 12 goals and 5 assists in the season. The season was short. The club won the league.",
]


def make(pipeline: str) -> None:
    """Parse the texts with a pipeline; every fifth is for validation."""
    from veridical_lab.corrupt.crossed.parsing import TextDocument, parse
    from veridical_lab.detectors.spacy_pipeline import load_pipeline

    for file in PARSES.glob("*"):
        file.unlink()
    parts = ("valid" if i % 5 == 4 else "train" for i in range(len(TEXTS)))
    documents = (TextDocument(f"mine/{i}", part, text) for i, (part, text) in enumerate(zip(parts, TEXTS, strict=True)))
    parse(documents, load_pipeline(pipeline, exclude=(), needs=("parser",), what="parser"), PARSES)


if __name__ == "__main__":
    make(sys.argv[1])
