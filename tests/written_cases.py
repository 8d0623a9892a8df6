"""Sources, right statements about them and wrong ones: signs, identifiers, answers, speakers, values and places.

Each case is (source, right, wrong). The wrong statement differs from the right one, or from the source, in one thing.
"""

from __future__ import annotations

__all__ = ["CASES"]

_RATES = "| Account | Rate | Fee |\n|---|---|---|\n| Basic | -0.5% | €3 |\n| Gold | 1.2% | €9 |"
_TENTS = (
    "| Tent | Price | Weight |\n|---|---|---|\n| Small tent | 60 euros | 2.1 kg |\n| Large tent | 90 euros | 3.4 kg |"
)
_ROOMS = "room,beds,rate\nGarden room,2,€80\nTower room,4,€140\nLoft room,3,€110"
_TRAINS = (
    '[{"train": "Dawn Express", "departs": "06:40", "platform": 3},'
    ' {"train": "Night Mail", "departs": "22:15", "platform": 7}]'
)
_DISHES = (
    "<table><tr><th>Dish</th><th>Price</th><th>kcal</th></tr><tr><td>Lentil soup</td><td>6 €</td><td>320</td></tr>"
    "<tr><td>Fish soup</td><td>9 €</td><td>410</td></tr></table>"
)
_POOLS = "Opening hours\n- Indoor pool: 7 am to 9 pm\n- Outdoor pool: 10 am to 6 pm\n- Sauna: 2 pm to 10 pm"
_CALL = "Marta: I will send the contract on Friday.\nOleg: Good. My team tests the new pump on Monday."
_JSON_CALL = (
    '[{"speaker": "Nurse", "text": "The dressing was changed at noon."},'
    ' {"speaker": "Patient", "text": "My left knee hurts when I climb stairs."}]'
)
_MAILS = (
    "From: Priya Nair <priya@orbit.example>\nSubject: Offer\n\nI accept the offer of 40 chairs.\n\n"
    "From: Tom Beck <tom@beck.example>\nSubject: Re: Offer\n\nI deliver the chairs next week."
)

CASES: dict[str, list[tuple[str, str, str]]] = {
    "signs": [
        (
            "The test was passed if score >= 70.",
            "The test was passed if score ≥ 70.",
            "The test was passed if score <= 70.",
        ),
        (
            "Mean growth was +1.4% in the north.",
            "In the north, mean growth was 1.4%.",
            "Mean growth was -1.4% in the north.",
        ),
        (_RATES, "The Basic account has a rate of -0.5%.", "The Basic account has a rate of 0.5%."),
        ("The freezer is kept at -18 °C.", "They keep the freezer at −18 °C.", "They keep the freezer at 18 °C."),
        ("The ticket costs £12 at the door.", "At the door the ticket costs £12.", "The ticket costs $12 at the door."),
        (
            "The agency cut the rating from A+ to A-.",
            "The rating was cut from A+ to A-.",
            "The agency cut the rating from A- to A+.",
        ),
        ("Use x > 0 && y > 0 in the filter.", "The filter uses x > 0 && y > 0.", "Use x > 0 || y > 0 in the filter."),
        ("Wi-Fi: ✓\nParking: ✗", "Wi-Fi: ✓, Parking: ✗", "Wi-Fi: ✗\nParking: ✓"),
        (
            "The plugin is written in F# and runs on .NET.",
            "The plugin is written in F#.",
            "The plugin is written in F and runs on .NET.",
        ),
        ("The reading was 5 ± 0.2 volts.", "The reading was 5 ± 0.2 volts.", "The reading was 5 + 0.2 volts."),
        ("Exports ↑ in March, imports ↓ in March.", "Exports ↑ in March.", "Exports ↓ in March, imports ↑ in March."),
        ("The surface grows with n^2 here.", "Here the surface grows with n².", "The surface grows with n*2 here."),
        ("The key is C♯ minor.", "It is in C♯ minor.", "The key is C♭ minor."),
        ("Water flows tank A → tank B.", "Water flows tank A → tank B.", "Water flows tank A ← tank B."),
        ("The discount is 20% for members.", "Members get a discount of 20%.", "The discount is $20 for members."),
        ("Her rhesus type is AB-.", "She has type AB-.", "Her rhesus type is AB+."),
    ],
    "identifiers": [
        (
            "Report bugs at https://bugs.orbit.example/new.",
            "Bugs go to bugs.orbit.example/new.",
            "Report bugs at https://bugs.orbit.example/add.",
        ),
        (
            "Write to help@northlake.example for refunds.",
            "For refunds, write to help@northlake.example.",
            "Write to refunds@northlake.example for refunds.",
        ),
        (
            "The gateway has the address 192.168.4.17.",
            "192.168.4.17 is the gateway.",
            "The gateway has the address 192.168.4.71.",
        ),
        ("It was fixed in release 4.8.1.", "Version 4.8.1 has the fix.", "It was fixed in release 4.8.2."),
        (
            "Pay to IBAN DE44 5001 0517 5407 3249 31.",
            "The IBAN is DE44500105175407324931.",
            "Pay to IBAN DE44 5001 0517 5407 3249 13.",
        ),
        ("The flaw is CVE-2023-40217.", "CVE-2023-40217 is the number of the flaw.", "The flaw is CVE-2023-40271."),
        (
            "Start it with `serve --read-only`.",
            "It starts with `serve --read-only`.",
            "Start it with `serve --readonly`.",
        ),
        (
            "Set max_threads=8 in /etc/orbit/pool.conf.",
            "In /etc/orbit/pool.conf, set max_threads=8.",
            "Set max_threads=8 in /etc/orbit/pools.conf.",
        ),
        (
            "Call +44 20 7946 0991 for the desk.",
            "The desk has the number +442079460991.",
            "Call +44 20 7946 0919 for the desk.",
        ),
    ],
    "answers": [
        (
            "Q: Is the museum open on Mondays?\nA: No.",
            "The museum is not open on Mondays.",
            "The museum is open on Mondays.",
        ),
        ("Can I bring my own wine? Yes, gladly.", "You can bring your own wine.", "You cannot bring your own wine."),
        (
            '{"name": "Pine Lodge", "smoking_allowed": false, "pool": true}',
            "Pine Lodge does not allow smoking.",
            "Pine Lodge allows smoking.",
        ),
        ("Amenities\n- Air conditioning: no\n- Lift: yes", "It has no air conditioning.", "It has air conditioning."),
        (
            "| Plan | Backup | Support |\n|---|---|---|\n| Free | No | Yes |\n| Team | Yes | Yes |",
            "The Free plan has no backup.",
            "The Free plan has backup.",
        ),
        ('{"sauna": null, "gym": "yes"}', "There is a gym.", "There is a sauna."),
        (
            "Do you deliver to Iceland?\nUnfortunately not.",
            "They do not deliver to Iceland.",
            "They deliver to Iceland.",
        ),
        ("Model | Bluetooth | Radio\nK1 | ✗ | ✓\nK2 | ✓ | ✗", "The K1 has no Bluetooth.", "The K1 has Bluetooth."),
    ],
    "speakers": [
        (_CALL, "Marta will send the contract on Friday.", "Oleg will send the contract on Friday."),
        (
            _CALL,
            "Oleg said his team tests the new pump on Monday.",
            "Marta said her team tests the new pump on Monday.",
        ),
        (
            _JSON_CALL,
            "The patient said that the left knee hurts on stairs.",
            "The nurse said that her left knee hurts when climbing stairs.",
        ),
        (_MAILS, "Priya Nair accepts the offer of 40 chairs.", "Tom Beck accepts the offer of 40 chairs."),
        (
            '"The bridge needs new cables," said Lena Voss. Rolf Aam disagreed: "The cables are fine."',
            "Lena Voss said the bridge needs new cables.",
            "Rolf Aam said the bridge needs new cables.",
        ),
        (
            "Customer: My order came broken.\nAgent: I refund it today.",
            "The customer said that the order came broken.",
            "The agent said that the order came broken.",
        ),
    ],
    "values": [
        ("The card holds 64 GB of photos.", "64 GB of photos fit on the card.", "The card holds 64 MB of photos."),
        ("Give 250 mcg of the drug.", "Give 250 micrograms of the drug.", "Give 250 mg of the drug."),
        ("The rent is 900 euros a month.", "The monthly rent is 900 euros.", "The rent is 900 euros a week."),
        ("Water the plant once a week.", "The plant is watered weekly.", "Water the plant once a day."),
        (
            "The pump moves 30 litres per minute.",
            "The pump moves 30 litres a minute.",
            "The pump moves 30 litres per hour.",
        ),
        ("The loan costs 4 per cent a year.", "The loan costs 4% annually.", "The loan costs 4% a month."),
        ("Sales were $45 million in spring.", "Sales were $45,000,000 in spring.", "Sales were $45 billion in spring."),
        ("The recipe needs a dozen eggs.", "The recipe needs 12 eggs.", "The recipe needs two dozen eggs."),
        ("The index changed by -2.5% on Friday.", "The index fell 2.5% on Friday.", "The index rose 2.5% on Friday."),
        ("The flat has 80 m² of floor.", "The floor of the flat has 80 square metres.", "The flat has 80 m³ of floor."),
        (
            "The session times out after 15 minutes.",
            "After 15 min the session times out.",
            "The session times out after 15 hours.",
        ),
        (
            "The form was signed on 12 March 2021.",
            "It was signed on 2021-03-12.",
            "The form was signed on 12 May 2021.",
        ),
    ],
    "places": [
        (_TENTS, "The large tent costs 90 euros.", "The large tent costs 60 euros."),
        (_TENTS, "The small tent weighs 2.1 kg.", "The small tent weighs 3.4 kg."),
        (_ROOMS, "The tower room has 4 beds.", "The tower room has 3 beds."),
        (_ROOMS, "The garden room costs €80.", "The garden room costs €110."),
        (_TRAINS, "The Night Mail leaves from platform 7.", "The Night Mail leaves from platform 3."),
        (_POOLS, "The outdoor pool is open from 10 am to 6 pm.", "The outdoor pool is open from 7 am to 9 pm."),
        (
            "The red line has 18 stops. The blue line has 25 stops.",
            "The blue line has 25 stops.",
            "The blue line has 18 stops.",
        ),
        (
            "- Adult ticket: 14 euros\n- Child ticket: 7 euros\n- Family ticket: 30 euros",
            "A child ticket costs 7 euros.",
            "A child ticket costs 14 euros.",
        ),
        (
            _DISHES,
            "The lentil soup has 320 kcal.",
            "The lentil soup has 410 kcal.",
        ),
    ],
}
