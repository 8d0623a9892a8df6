// Examples to try: invented texts, so that nobody's words are judged.

export const EXAMPLES = [
  {
    name: "A summary of the news",
    about: "a wrong number, a wrong name, and a point that had to be covered",
    case: {
      response:
        "The harbour town of Lindmark opened its new tidal power station on Tuesday. The plant, which cost 48 million euros, is expected to supply 9,000 homes. Mayor Ingrid Solberg called it the proudest day of her career. Fishermen had supported the project from the start.",
      question: "What happened in Lindmark?",
      sources: [
        {
          id: "Lindmark Courier",
          text: "Lindmark opened its tidal power station on Tuesday after six years of construction. The plant stands at the mouth of the harbour and uses the two tides of each day to turn twelve turbines.\n\nIt cost 84 million euros, a third more than was planned, and is expected to supply 9,000 homes. Mayor Henrik Dahl thanked the engineers and said that the town had learned patience from the sea.\n\nFishermen had fought the project in court for two years, for the sluice closes off the eastern channel. They reached an agreement with the town in March: the channel stays open from October to April.",
        },
        {
          id: "points to cover",
          text: "The station cost a third more than was planned. The eastern channel stays open to fishermen from October to April.",
          must_cover: true,
        },
      ],
    },
  },
  {
    name: "A restaurant, described",
    about: "facts in rows, each of which had to be mentioned",
    case: {
      response: "Aromi is a coffee shop by the riverside that serves Chinese food. It is the cheapest place in town, and children are welcome.",
      sources: [
        { id: "name", text: "Aromi", must_cover: true },
        { id: "type", text: "coffee shop", must_cover: true },
        { id: "food", text: "Chinese food", must_cover: true },
        { id: "rating", text: "customer rating 3 out of 5", must_cover: true },
        { id: "area", text: "riverside", must_cover: true },
        { id: "families", text: "family friendly", must_cover: true },
      ],
    },
  },
  {
    name: "Two sides of a question",
    about: "arguments for and against, both of which a fair answer covers",
    case: {
      response:
        "Cities should close their centres to cars, because the air becomes cleaner and streets become safer for children. Shops gain as well: people who walk stay longer and spend more.",
      question: "Should cities close their centres to cars?",
      sources: [
        { id: "for", perspective: "pro", must_cover: true, text: "Without cars the air in the centre becomes cleaner. Streets become safer for children." },
        { id: "against", perspective: "con", must_cover: true, text: "Older people who cannot walk far lose their way into town. Deliveries become slower and more expensive." },
      ],
    },
  },
];
