// What a first visitor sees: documents that the small model that ships with the program can read.

export const examples = {
  ask: {
    documents: [
      {id: 'Marigold', text: 'Notes from the harbour\n\nThe ferry leaves at 7:45 every morning. The ferry is painted yellow and has 64 seats. The captain of the ferry is Anna Walker. Anna Walker was born in Lisbon. Nobody was in a hurry, and the weather was mild.\n\nThe chest opens with the code KT-4821. It contains three crates of dried figs.'},
      {id: 'Otter', text: 'A morning on the canal\n\nThe ferry leaves at 9:30 on weekdays. The ferry is painted dark red and has 18 seats. The captain of the ferry is Tom Reed. Tom Reed was born in Bergen. Several guests admired the view.\n\nThe chest opens with the code BX-0917. It contains old maps.'},
      {id: 'Tamberley', text: 'From the captain’s log\n\nThe ferry leaves at 12:15 on Sundays. The ferry is painted white. The captain of the ferry is Clara Hill. Clara Hill works as a carpenter. Someone had left candles in the cabin.\n\nThe museum opened in 1887. It charges 12 euros for entry and is closed on Tuesday.'},
    ],
    questions: ['At what time does the ferry leave?', 'Who is the captain of the ferry?', 'What colour is the ferry?',
      'How many seats does the ferry have?', 'Which code opens the chest?', 'What is in the chest?',
      'How much does entry cost?', 'What is the job of Clara Hill?'],
  },
  extract: {
    documents: [
      {id: 'kettle', text: 'Kelvora Trail 200 kettle\n\nColour : moss green\nWeight : 3 kg\nPrice : 45 dollars\nThe brand is Kelvora. The handle is made of leather.'},
      {id: 'lamp', text: 'Desk lamp with a long arm\n\nBrand : Ostrava\nColour : copper\nMaterial : brass\nPrice : 120 dollars\nThe warranty is 2 years.'},
      {id: 'tent', text: 'A tent for two. The brand is Deltron. It weighs 2.4 kg and is dark red.\n\nMaterial : nylon\nPrice : 189 dollars'},
    ],
    schema: {attributes: [{name: 'brand'}, {name: 'colour'}, {name: 'weight'}, {name: 'price'}, {name: 'material'}, {name: 'warranty'}]},
  },
  experts: {
    documents: [
      {id: 'village', text: 'Every singer in the village knows the story of the cheap baskets. As it happens, the night train is loaded with maps and broken barrels. A quiet sign hung outside the gate. According to the records, the profession of Anna Walker is doctor.'},
      {id: 'harbour', text: 'Many people like silver walls, but not everyone does. Reports say that Tom Reed founded the company. Several guests laughed about the weather near the station. One more detail about the boat called Marigold: the captain is Anna Walker. Some seeds were sold at the corner for a good price.'},
      {id: 'market', text: 'Some buttons were sold in the square. The secret code of the yacht Otter is KT-4821. Late at night, several guests admired the view.'},
      {id: 'station', text: 'The train leaves at 7:45 every morning. Someone had left small hammers in the stable. The station was painted green.'},
    ],
    questions: ['What do we know about the profession of the driver of the Marigold boat?', 'Which secret code does the yacht Otter have?'],
    relevance: 'equal',
  },
};
