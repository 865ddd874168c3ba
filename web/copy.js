// Rows and requests in other forms: JSONL, CSV, and the command that does the same.

export const asJsonLines = rows => rows.map(row => JSON.stringify(row) + '\n').join('');

const field = value => {
  const text = value === null || value === undefined ? '' : typeof value === 'string' ? value : JSON.stringify(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

// Values of attributes have columns of their own, as on the command line.
function flat(row) {
  const {values, spans, trace, ...rest} = row, line = {...rest};
  for (const [name, value] of Object.entries(values ?? {})) line[name in rest ? `value.${name}` : name] = value;
  return line;
}

const csvLine = cells => cells.map(field).join(',') + '\r\n';

// A column for every field.
export function asCsv(rows) {
  const lines = rows.map(flat), columns = [...new Set(lines.flatMap(Object.keys))];
  return [columns, ...lines.map(line => columns.map(name => line[name]))].map(csvLine).join('');
}

// The columns of a table whose rows are not there yet. names: of attributes.
const always = {
  ask: ['id', 'question', 'answer', 'confidence', 'start', 'end', 'question_id', 'withheld', 'finish_reason', 'tokens', 'prompt_tokens', 'error'],
  extract: ['id', 'confidence', 'reasons', 'tokens', 'prompt_tokens', 'error'],
  experts: ['id', 'question', 'answer', 'citations', 'finish_reason', 'tokens', 'prompt_tokens', 'error'],
};
export function csvColumns(task, names) {
  const own = task === 'extract' ? names.map(name => always.extract.includes(name) ? `value.${name}` : name) : [];
  return [always[task][0], ...own, ...always[task].slice(1)];
}
export const csvHeader = columns => csvLine(columns);
export const csvRow = (row, columns) => csvLine(columns.map(name => flat(row)[name]));

// One word of a POSIX shell.
export const quoted = text => /^[\w./:=@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;

// A file with these lines. None of them may be the word that ends it.
function here(name, lines) {
  let end = 'END';
  while (lines.includes(end)) end += 'D';
  return `cat > ${name} <<'${end}'\n${lines.join('\n')}\n${end}\n`;
}

// An instruction that would be taken for a file's name or an option comes out of a file.
const odd = text => /^[@-]/.test(text);
const instructionFile = ({instruction}) => instruction && odd(instruction) ? `printf %s ${quoted(instruction)} > instruction.txt\n` : '';

// The adapter is named by every row, as the server does it.
const adapter = body => body.model ? ['--adapter', quoted(`${body.model}=${body.model}`)] : [];
const named = (row, body) => JSON.stringify(body.model ? {...row, adapter: body.model} : row);
const copies = body => 'copy' in body ? [body.copy ? '--copy' : '--no-copy'] : [];

const common = (body, limit) => [
  ...(body.min_confidence ? ['--min-confidence', String(body.min_confidence)] : []),
  ...(body.instruction ? ['--instruction', odd(body.instruction) ? '@instruction.txt' : quoted(body.instruction)] : []),
  ...(body.max_tokens ? [limit, String(body.max_tokens)] : []),
];

function ask(body, model) {
  const few = body.questions.length <= 10 && body.questions.every(question => !question.startsWith('-'));
  return here('documents.jsonl', body.documents.map(({id, text}) => named({id, context: text}, body))) +
    (few ? '' : here('questions.txt', body.questions)) +
    ['banyan ask documents.jsonl', ...model, ...adapter(body), ...(few ? body.questions.map(question => `-q ${quoted(question)}`) : ['--questions questions.txt']),
      ...copies(body), ...common(body, '--max-new'), '--ordered -o answers.jsonl'].join(' ') + '\n';
}

function extract(body, model) {
  return here('documents.jsonl', body.documents.map(document => named(document, body))) +
    here('schema.json', [JSON.stringify(body.schema)]) +
    ['banyan extract documents.jsonl --schema schema.json', ...model, ...adapter(body), ...copies(body), ...(body.values ? ['--values', body.values] : []),
      ...common(body, '--max-tokens'), '--ordered -o values.jsonl --report report.html'].join(' ') + '\n';
}

function experts(body, model) {
  const lines = body.questions.map((question, i) => named({id: i + 1, question, ...(body.documents ? {documents: body.documents} : {})}, body));
  return here('questions.jsonl', lines) +
    ['banyan rag questions.jsonl', ...model, ...adapter(body), ...copies(body), ...(body.documents ? [] : ['--index', '.banyan-index']),
      ...(body.method ? ['--method', body.method] : []), ...(body.relevance ? ['--relevance', body.relevance] : []),
      ...common(body, '--max-new'), '--ordered -o answers.jsonl --trace trace.html'].join(' ') + '\n';
}

export function asCommand(task, body, model) {
  return instructionFile(body) + {ask, extract, experts}[task](body, model && model !== 'banyan-reader-34m' ? ['-m', quoted(model)] : []);
}

export async function toClipboard(text) {
  if (navigator.clipboard && isSecureContext) return navigator.clipboard.writeText(text);
  const area = document.createElement('textarea');  // plain HTTP from another machine
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  if (!done) throw new Error('The browser does not let the page copy.');
}
