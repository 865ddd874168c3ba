// Talking with the server: JSON out, events in.

export class ServerError extends Error {
  constructor(message, status = 0, wait = 0) {
    super(message);
    Object.assign(this, {status, wait});  // wait: seconds after which to come again
  }
}

let key = '';  // in memory only
export const useKey = text => { key = text.trim(); };
export const hasKey = () => key !== '';

function headers(more) {
  return key ? {...more, Authorization: `Bearer ${key}`} : more;
}

async function send(path, options) {
  try {
    return await fetch(path, {cache: 'no-store', credentials: 'omit', ...options});
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ServerError('The server does not answer. Is it still running?');
  }
}

// What a refusal means, in words.
async function refusal(response) {
  let said = '';
  try {
    said = (await response.json()).error?.message ?? '';
  } catch { /* not the server's own words: a proxy's, perhaps */ }
  const wait = Number(response.headers.get('Retry-After'));
  const later = wait > 0 ? ` Try again in ${wait} ${wait === 1 ? 'second' : 'seconds'}.` : ' Try again soon.';
  const words = {
    401: 'The server wants an API key' + (key ? ', and does not know this one.' : '.'),
    413: 'That is more than the server takes at once.',
    429: 'The server is busy.' + later,
    503: 'The server is about to stop, or overloaded.' + later,
  }[response.status];
  const told = words ? words + (said && response.status !== 401 ? ` (${said})` : '') : said || `The server refused (${response.status}).`;
  return new ServerError(told, response.status, wait);
}

export async function getJson(path) {
  const response = await send(path, {headers: headers({})});
  if (!response.ok) throw await refusal(response);
  return response.json();
}

// A file's text, as the server reads it: {name, kind, text, characters}.
export async function readDocument(file) {
  const response = await send(`v1/documents?name=${encodeURIComponent(file.name)}`,
    {method: 'POST', body: file, headers: headers({'Content-Type': file.type || 'application/octet-stream'})});
  if (!response.ok) throw await refusal(response);
  return response.json();
}

// The events of a streamed answer, one by one. Ends with [DONE]; a stream that ends before it is an error.
export async function* events(path, body, signal) {
  const response = await send(path, {method: 'POST', body: JSON.stringify({...body, stream: true}), signal,
    headers: headers({'Content-Type': 'application/json', Accept: 'text/event-stream'})});
  if (!response.ok) throw await refusal(response);
  const reader = response.body.getReader(), decoder = new TextDecoder();
  let waiting = '';
  for (;;) {
    let part;
    try {
      part = await reader.read();
    } catch (error) {
      if (signal.aborted) throw error;
      throw new ServerError('The connection broke off. What was answered is below.');
    }
    if (part.done) throw new ServerError('The stream ended too early. What was answered is below.');
    waiting += decoder.decode(part.value, {stream: true});
    let from = 0;
    for (let end; (end = waiting.indexOf('\n\n', from)) >= 0; from = end + 2) {
      const data = waiting.slice(from, end).split('\n').filter(line => line.startsWith('data:'))
        .map(line => line.slice(line[5] === ' ' ? 6 : 5)).join('\n');
      if (data === '[DONE]') return;
      if (data) yield JSON.parse(data);
    }
    waiting = waiting.slice(from);
  }
}
