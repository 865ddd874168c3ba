// What is asked for, out of the fields of the page, as the server takes it.
import {$} from './dom.js';

// copied: what the task does about the words of an answer when nothing is chosen.
export const tasks = {
  ask: {
    verb: 'Ask', path: 'v1/ask', name: 'ask', noun: 'answer', fields: [], copied: 'as the model was trained', title: 'One context, many answers',
    about: 'Every document is computed once for all its questions. All answers are generated together, and each is exactly what it would be alone.',
  },
  extract: {
    verb: 'Extract', path: 'v1/extract', name: 'extract', noun: 'document', fields: ['category'], copied: 'copied where the schema allows it',
    words: {question: 'attributes', answer: 'value'}, title: 'All values at once, always valid',
    about: 'Name the attributes. All values of a document are extracted in parallel, each with its type and its position in the text.',
  },
  experts: {
    verb: 'Ask all documents', path: 'v1/rag', name: 'rag', noun: 'answer', fields: ['title', 'score'], copied: 'as the model was trained', title: 'Answer from many documents',
    about: 'Every document is read by itself. The answer comes from the one that has it, with its place there; what others answer is listed beside it.',
  },
};

export function questions() {
  return $('questions').value.split('\n').map(line => line.trim()).filter(Boolean);
}

const pick = (object, names) => Object.fromEntries(names.filter(name => object[name] !== undefined).map(name => [name, object[name]]));

// A document with the fields that the task knows.
export const documentOf = (task, document) => pick(document, ['id', 'text', ...tasks[task].fields]);

// A number in words where it makes no sense.
function numberIn(id, least, most, name) {
  const text = $(id).value.trim();
  if (!text && !$(id).validity.badInput) return undefined;
  const value = Number(text);
  if (!text || !(value >= least && value <= most)) throw new Error(`${name}: expected a number from ${least} to ${most}.`);
  return value;
}

// All but the documents. Throws in words.
export function requestOf(task, schema) {
  const body = {}, option = id => $(id).value.trim();
  if (task === 'extract') body.schema = schema.value;
  else if (!questions().length) throw new Error('There is no question. Write one a line.');
  else body.questions = questions();
  if (option('instruction')) body.instruction = option('instruction');
  const tokens = numberIn('max-tokens', 1, 4096, 'Maximum tokens per answer');
  if (tokens) body.max_tokens = tokens;
  if (option('copy')) body.copy = option('copy') === 'true';
  const confidence = task === 'experts' ? undefined : numberIn('confidence', 0, 1, 'Least confidence');
  if (confidence) body.min_confidence = confidence;
  if (option('adapter')) body.model = option('adapter');
  if (task === 'extract' && option('values')) body.values = option('values');
  if (task === 'experts' && option('relevance')) body.relevance = option('relevance');
  if (task === 'experts' && option('method')) body.method = option('method');
  return body;
}
