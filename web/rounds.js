// A task of any size: documents are asked in rounds that the server takes, and forgotten. Rows come in the order of the
// documents, within them of the questions.
import {ServerError, events} from './stream.js';

const mostAnswers = 1024, bytesOfCharacter = 3;

const later = (seconds, signal) => new Promise((resolve, reject) => {
  const timer = setTimeout(resolve, 1000 * seconds);
  signal.addEventListener('abort', () => { clearTimeout(timer); reject(signal.reason); }, {once: true});
});

// Documents of an async iterable, as many at a time as one request may have.
async function* roundsOf(documents, most, bytes) {
  let round = [], size = 0;
  for await (const document of documents) {
    const its = bytesOfCharacter * document.text.length + 256;
    if (round.length && (round.length >= most || size + its > bytes)) {
      yield round;
      round = [];
      size = 0;
    }
    round.push(document);
    size += its;
  }
  if (round.length) yield round;
}

// The rows of one request. A busy server is asked again when it says so.
async function rowsOf(path, body, signal, answered) {
  for (;;) {
    const found = [];
    try {
      for await (const event of events(path, body, signal)) {
        if (event.type === 'error') throw new ServerError(event.error?.message ?? 'The server gave up on this.');
        if (event.type !== 'answer') continue;
        found.push(event);
        answered(event.row);
      }
    } catch (error) {
      if (found.length || (error.status !== 429 && error.status !== 503)) throw error;
      await later(error.wait || 2, signal);
      continue;
    }
    return found.sort((a, b) => (a.document ?? 0) - (b.document ?? 0) || (a.question ?? 0) - (b.question ?? 0)).map(event => event.row);
  }
}

// Asks about `documents` (an iterable, async or not). take(rows, documents) gets each round's; answered(row) every row at
// once. A document that is more than the server takes has an error row.
export async function runRounds({path, body, documents, limits, signal, answered, take}) {
  const questions = body.questions?.length ?? 1, answers = Math.min(mostAnswers, limits.answers);
  if (questions > limits.answers) throw new Error(`There are ${questions} questions; the server takes ${limits.answers} at once.`);
  const ask = async round => {
    try {
      await take(await rowsOf(path, {...body, documents: round}, signal, answered), round);
    } catch (error) {
      if (error.status !== 413) throw error;
      if (round.length > 1) {
        const half = round.length >> 1;
        await ask(round.slice(0, half));
        return ask(round.slice(half));
      }
      const row = {id: round[0].id, error: {kind: 'limit', message: error.message}};
      answered(row);
      await take([row], round);
    }
  };
  const most = Math.max(1, Math.floor(Math.max(answers, questions) / questions));
  for await (const round of roundsOf(documents, most, limits.bytes / 2)) await ask(round);
}
