// Rows and requests in other forms: JSONL, CSV, and the command that does the same.

export const asJsonLines = rows => rows.map(row => JSON.stringify(row) + '\n').join('');

const field = value => {
  const text = value === null || value === undefined ? '' : typeof value === 'string' ? value : JSON.stringify(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

// A column for every field; values of attributes have columns of their own, as on the command line.
export function asCsv(rows) {
  const flat = rows.map(row => {
    const {values, spans, trace, ...rest} = row, line = {...rest};
    for (const [name, value] of Object.entries(values ?? {})) line[name in rest ? `value.${name}` : name] = value;
    return line;
  });
  const columns = [...new Set(flat.flatMap(Object.keys))];
  return [columns, ...flat.map(line => columns.map(name => line[name]))].map(line => line.map(field).join(',') + '\r\n').join('');
}

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

const common = (body, limit) => [
  ...(body.instruction ? ['--instruction', odd(body.instruction) ? '@instruction.txt' : quoted(body.instruction)] : []),
  ...(body.max_tokens ? [limit, String(body.max_tokens)] : []),
];

function ask(body, model) {
  const few = body.questions.length <= 10 && body.questions.every(question => !question.startsWith('-'));
  return here('documents.jsonl', body.documents.map(({id, text}) => JSON.stringify({id, context: text}))) +
    (few ? '' : here('questions.txt', body.questions)) +
    ['banyan ask documents.jsonl', ...model, ...(few ? body.questions.map(question => `-q ${quoted(question)}`) : ['--questions questions.txt']),
      ...('copy' in body ? [body.copy ? '--copy' : '--no-copy'] : []),
      ...common(body, '--max-new'), '--ordered -o answers.jsonl'].join(' ') + '\n';
}

function extract(body, model) {
  return here('documents.jsonl', body.documents.map(document => JSON.stringify(document))) +
    here('schema.json', [JSON.stringify(body.schema)]) +
    ['banyan extract documents.jsonl --schema schema.json', ...model, ...(body.values ? ['--values', body.values] : []),
      ...common(body, '--max-tokens'), '--ordered -o values.jsonl --report report.html'].join(' ') + '\n';
}

function experts(body, model) {
  const lines = body.questions.map((question, i) => JSON.stringify({id: i + 1, question, ...(body.documents ? {documents: body.documents} : {})}));
  return here('questions.jsonl', lines) +
    ['banyan rag questions.jsonl', ...model, ...(body.documents ? [] : ['--index', '.banyan-index']),
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
