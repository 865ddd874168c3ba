// Tables of documents: CSV, TSV and JSONL files, a document per row. A table is read from its file in pieces, as often as
// it is needed, so that a file may be larger than the memory.

const textNames = ['context', 'text', 'body', 'content', 'document', 'description', 'message', 'review', 'abstract'];
const idNames = ['id', 'name', 'title', 'key'];
const kept = ['category', 'title', 'score'];
const sampleRows = 50;

// The text of a file, piece by piece. Throws where it is not UTF-8.
async function* piecesOf(file) {
  const reader = file.stream().getReader(), decoder = new TextDecoder('utf-8', {fatal: true});
  try {
    for (;;) {
      const {done, value} = await reader.read();
      let text;
      try {
        text = decoder.decode(value ?? new Uint8Array(), {stream: !done});
      } catch {
        throw new Error('not valid UTF-8; please save it in that encoding');
      }
      if (text) yield text;
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

// Rows of comma-separated values (RFC 4180) out of pieces of text. Lines without anything are no rows.
export class CsvRows {
  #cells = [];
  #cell = '';
  #quoted = false;
  #closed = false;  // the last character ended a quoted part: another quote would stand for one

  constructor(delimiter) { this.delimiter = delimiter; }

  // The rows that are complete with this piece.
  push(text) {
    const rows = [];
    let from = 0;
    for (let i = 0; i < text.length; ++i) {
      const c = text[i];
      if (this.#quoted) {
        if (c !== '"') continue;
        this.#cell += text.slice(from, i);
        from = i + 1;
        this.#quoted = false;
        this.#closed = true;
      } else if (c === '"' && (this.#closed || (from === i && this.#cell === ''))) {
        if (this.#closed) this.#cell += '"';
        this.#quoted = true;
        this.#closed = false;
        from = i + 1;
      } else if (c === this.delimiter || c === '\n') {
        this.#cell += text.slice(from, i);
        from = i + 1;
        this.#closed = false;
        if (c === '\n' && this.#cell.endsWith('\r')) this.#cell = this.#cell.slice(0, -1);
        this.#cells.push(this.#cell);
        this.#cell = '';
        if (c === '\n') this.#endRow(rows);
      } else {
        this.#closed = false;
      }
    }
    this.#cell += text.slice(from);
    return rows;
  }

  end() {
    if (this.#quoted) throw new Error('a quote is opened and never closed');
    return this.#cell || this.#cells.length ? this.push('\n') : [];
  }

  #endRow(rows) {
    if (this.#cells.length > 1 || this.#cells[0] !== '') rows.push(this.#cells);
    this.#cells = [];
  }
}

// What stands between the names of the first line.
export function delimiterOf(head) {
  const line = head.replace(/"[^"]*"/g, '').split('\n')[0], times = d => line.split(d).length;
  return [',', ';', '\t', '|'].reduce((best, d) => times(d) > times(best) ? d : best);
}

const among = (columns, names) => names.map(name => columns.findIndex(c => c.trim().toLowerCase() === name)).find(i => i >= 0) ?? -1;

// The column with a name that says so, else that with the longest texts.
export function guessText(columns, rows) {
  const named = among(columns, textNames);
  if (named >= 0) return named;
  const letters = columns.map((_, i) => rows.reduce((sum, row) => sum + (row[i] ?? '').length, 0));
  return letters.indexOf(Math.max(...letters));
}

class CsvTable {
  static async open(file) {
    const table = new CsvTable(), rows = [];
    let parser;
    table.file = file;
    for await (const piece of piecesOf(file)) {
      table.delimiter ??= /\.tsv$/i.test(file.name) ? '\t' : delimiterOf(piece);
      parser ??= new CsvRows(table.delimiter);
      rows.push(...parser.push(piece));
      if (rows.length > sampleRows) break;
    }
    if (rows.length <= sampleRows) rows.push(...parser?.end() ?? []);
    if (!rows.length) throw new Error('the file has no text');
    const [columns, ...sample] = rows;
    if (!sample.length) throw new Error('the table has a header and no rows');
    table.columns = columns;
    table.text = guessText(columns, sample);
    table.id = among(columns, idNames.filter(name => columns[table.text].trim().toLowerCase() !== name));
    return table;
  }

  // {id, text, …} of every row; refuse(reason) hears of rows that are none.
  async *documents(refuse) {
    const parser = new CsvRows(this.delimiter), places = kept.map(name => [name, among(this.columns, [name])]).filter(([, i]) => i >= 0 && i !== this.text);
    let number = 0;
    const documentOf = row => {
      ++number;
      if (number === 1) return null;  // the header
      if (row.length > this.columns.length) return refuse(`row ${number} has ${row.length} cells, the header ${this.columns.length}`);
      const text = row[this.text] ?? '';
      if (!text.trim()) return refuse(`row ${number} has no text in '${this.columns[this.text]}'`);
      const more = Object.fromEntries(places.map(([name, i]) => [name, row[i]]).filter(([, value]) => value));
      if (more.score !== undefined) more.score = Number(more.score);
      if (Number.isNaN(more.score)) delete more.score;
      return {...more, id: (this.id >= 0 && row[this.id]?.trim()) || `row ${number}`, text};
    };
    for await (const piece of piecesOf(this.file)) {
      for (const row of parser.push(piece)) { const found = documentOf(row); if (found) yield found; }
    }
    for (const row of parser.end()) { const found = documentOf(row); if (found) yield found; }
  }
}

// {"id"?, "text" or "context"} of a line of JSONL or of an entry of an array.
function documentOfObject(row, place, refuse) {
  const text = row?.text ?? row?.context;
  if (typeof text !== 'string') return refuse(`${place}: expected a field 'text' or 'context' with a text`);
  if (!text.trim()) return refuse(`${place} has no text`);
  return {...Object.fromEntries(kept.filter(name => row[name] != null).map(name => [name, row[name]])), id: String(row.id ?? place), text};
}

class JsonLines {
  static open(file) { return Object.assign(new JsonLines(), {file}); }

  async *documents(refuse) {
    let rest = '', number = 0;
    const documentOf = line => {
      ++number;
      if (!line.trim()) return null;
      let row;
      try {
        row = JSON.parse(line);
      } catch {
        return refuse(`line ${number} is no JSON`);
      }
      return documentOfObject(row, `line ${number}`, refuse);
    };
    for await (const piece of piecesOf(this.file)) {
      const lines = (rest + piece).split('\n');
      rest = lines.pop();
      for (const line of lines) { const found = documentOf(line); if (found) yield found; }
    }
    const last = documentOf(rest);
    if (last) yield last;
  }
}

// JSON of one document or of an array of them, read whole.
class JsonFile {
  static open(file) { return Object.assign(new JsonFile(), {file}); }

  async *documents(refuse) {
    let value;
    const text = await this.file.text();
    try {
      value = JSON.parse(text);
    } catch {
      throw new Error('this is no JSON');
    }
    for (const [i, row] of (Array.isArray(value) ? value : [value]).entries()) {
      const found = documentOfObject(row, `entry ${i + 1}`, refuse);
      if (found) yield found;
    }
  }
}

// The table that a file is, or null: a document by itself.
export async function openTable(file) {
  if (/\.[ct]sv$/i.test(file.name)) return CsvTable.open(file);
  if (/\.(jsonl|ndjson)$/i.test(file.name)) return JsonLines.open(file);
  if (/\.json$/i.test(file.name)) return JsonFile.open(file);
  return null;
}
