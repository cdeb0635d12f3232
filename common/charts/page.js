'use strict';
// Tables that sort, filter and search (data_table.h), and the card that shows one of their rows.
// Names come from data of others: they become text nodes and attributes, never markup.

const element = (tag, attributes = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else if (value !== false) made.setAttribute(name, value === true ? '' : value);
  }
  made.append(...children);
  return made;
};

function unpack(base64, Type) {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  return new Type(bytes.buffer);
}

const collator = new Intl.Collator('en', { numeric: true });

// A column answers: what a row shows, what it is sorted by (NaN: last), which rows a filter keeps.
class TextColumn {
  constructor({ name, values, width, codes }) {
    Object.assign(this, { name, values });
    if (codes) this.codes = unpack(codes, { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array }[width]);
  }
  code(row) { return this.codes ? this.codes[row] : row; }
  shown(row) { return this.values[this.code(row)]; }
  keys() {
    const order = [...this.values.keys()].sort((a, b) => collator.compare(this.values[a], this.values[b]));
    const ranks = new Float64Array(order.length);
    order.forEach((value, rank) => { ranks[value] = this.values[value] === '' ? NaN : rank; });
    return (row) => ranks[this.code(row)];
  }
  // "=b" is b alone, "!=b" all others; anything else is a part of the text.
  filter(words) {
    const [, sign, rest] = /^(!?=)?(.*)$/s.exec(words.toLowerCase());
    const kept = this.values.map((value) => {
      const text = value.toLowerCase();
      return sign ? (text === rest) === (sign === '=') : text.includes(rest);
    });
    return (row) => kept[this.code(row)];
  }
}

class NumberColumn {
  constructor({ name, digits, exact, numbers }) {
    Object.assign(this, { name, digits, right: true, numbers: unpack(numbers, exact ? Float64Array : Float32Array) });
  }
  shown(row) { return Number.isFinite(this.numbers[row]) ? this.numbers[row].toFixed(this.digits) : '–'; }
  keys() { return (row) => this.numbers[row]; }
  // "> 3", "<= 3", "3 to 7", "3"; null for anything else. What a row shows is what is compared.
  filter(words) {
    const value = (row) => (Number.isFinite(this.numbers[row]) ? Number(this.shown(row)) : NaN);
    const range = /^(-?[\d.]+)\s*(?:to|–|\.\.)\s*(-?[\d.]+)$/.exec(words);
    if (range) return (row) => value(row) >= Number(range[1]) && value(row) <= Number(range[2]);
    const [, sign, text] = /^(<=?|>=?|!?=)?\s*(.*)$/.exec(words);
    const bound = Number(text);
    if (text === '' || Number.isNaN(bound)) return null;
    const holds = { '<': (x) => x < bound, '<=': (x) => x <= bound, '>': (x) => x > bound, '>=': (x) => x >= bound,
      '!=': (x) => x !== bound }[sign] || ((x) => x === bound);
    return (row) => holds(value(row));
  }
}

// Other rows of the table, by their names.
class RowColumn extends TextColumn {
  constructor({ name, rows }, names, count) {
    super({ name, values: [...Array.from({ length: count }, (_, row) => names.shown(row)), ''] });
    this.codes = unpack(rows, Uint32Array).map((row) => Math.min(row, count));
  }
  to(row) { return this.shown(row) === '' ? null : this.codes[row]; }
}

class Table {
  constructor(root) {
    this.id = root.id;
    this.height = 30;  // px of a row, until one is drawn
    const data = JSON.parse(root.querySelector('script').textContent);
    this.names = new TextColumn(data.columns[0]);
    this.count = (this.names.codes || this.names.values).length;
    this.columns = [this.names, ...data.columns.slice(1).map((column) => (column.values ? new TextColumn(column)
      : column.numbers ? new NumberColumn(column) : new RowColumn(column, this.names, this.count)))];
    Object.assign(this, { pictures: data.pictures, withoutPictures: data.without_pictures });
    this.draw(root);
    this.sort(data.sorted, -1);
  }

  draw(root) {
    this.search = element('input', { type: 'search', placeholder: 'search in names and texts',
      'aria-label': 'search in names and texts', oninput: () => this.update() });
    this.found = element('span', { class: 'found', 'aria-live': 'polite' });
    this.heads = this.columns.map((column, i) => element('th', { class: column.right ? 'num' : '' },
      element('button', { title: column.name, onclick: () => this.sort(i) }, column.name)));
    this.filters = this.columns.map((column) => element('input', { 'aria-label': `filter ${column.name}`,
      placeholder: column.right ? '> 0' : 'filter', oninput: () => this.update() }));
    this.body = element('tbody');
    const widths = this.columns.map((column) => this.width(column));
    this.scroller = element('div', { class: 'rows', tabindex: '0', onscroll: () => this.show() },
      element('table', { style: `width:${widths.reduce((a, b) => a + b)}rem` },
        element('colgroup', {}, ...widths.map((width) => element('col', { style: `width:${width}rem` }))),
        element('thead', {}, element('tr', {}, ...this.heads),
          element('tr', {}, ...this.filters.map((filter) => element('td', {}, filter)))), this.body));
    root.append(element('div', { class: 'live' },
      element('p', { class: 'tools' }, this.search, ' ', this.found), this.scroller));
    root.classList.add('scripted');
  }

  // As wide as what stands in it, judged by some of the rows.
  width(column) {
    let letters = column.name.length + 3;
    for (let row = 0; row < this.count; row += Math.ceil(this.count / 400)) {
      letters = Math.max(letters, String(column.shown(row)).length);
    }
    const most = column === this.names ? 60 : 32;
    return Math.min(most, Math.max(6, letters)) * 0.6 + 1;  // rem
  }

  // The second click on a column turns it round.
  sort(column, direction = this.sorted === column ? -this.direction : this.columns[column].right ? -1 : 1) {
    Object.assign(this, { sorted: column, direction });
    const order = direction > 0 ? 'ascending' : 'descending';
    this.heads.forEach((head, i) => head.setAttribute('aria-sort', i === column ? order : 'none'));
    const of = this.columns[column].keys(), last = (key) => (Number.isNaN(key) ? Infinity : key * direction);
    const keys = Float64Array.from({ length: this.count }, (_, row) => last(of(row)));
    this.ranking = Uint32Array.from(keys.keys()).sort((a, b) => (keys[a] < keys[b] ? -1 : keys[a] > keys[b] ? 1 : a - b));
    this.update();
  }

  update() {
    const wanted = [];
    this.filters.forEach((filter, i) => {
      const words = filter.value.trim();
      const keeps = words === '' ? undefined : this.columns[i].filter(words);
      filter.setAttribute('aria-invalid', keeps === null);
      if (keeps) wanted.push(keeps);
    });
    for (const word of this.search.value.split(/\s+/).filter(Boolean)) {
      const anywhere = this.columns.filter((column) => column.values && !column.to).map((column) => column.filter(word));
      wanted.push((row) => anywhere.some((has) => has(row)));
    }
    this.order = wanted.length ? this.ranking.filter((row) => wanted.every((keeps) => keeps(row))) : this.ranking;
    this.found.textContent = wanted.length ? `${this.order.length} of ${this.count}` : `all ${this.count}`;
    this.scroller.scrollTop = 0;
    this.show();
  }

  // Only rows that can be seen are in the page; empty ones above and below keep the others' place.
  show() {
    const height = this.height, first = Math.max(0, Math.floor(this.scroller.scrollTop / height) - 10);
    const seen = [...this.order.subarray(first, first + Math.ceil(this.scroller.clientHeight / height) + 20)];
    const gap = (rows) => element('tr', { style: `height:${rows * height}px`, 'aria-hidden': 'true' });
    this.body.replaceChildren(gap(first), ...seen.map((row) => this.line(row)), gap(this.order.length - first - seen.length));
    const drawn = seen.length ? this.body.children[1].offsetHeight : 0;
    if (drawn && drawn !== height) {
      this.height = drawn;
      this.show();
    }
  }

  line(row) {
    return element('tr', {}, ...this.columns.map((column, i) => element('td',
      { class: column.right ? 'num' : '', title: column.right ? false : column.shown(row) },
      i === 0 ? this.link(row) : column.shown(row) || (column.to ? '–' : ''))));
  }

  link(row) { return element('a', { href: `#${this.id}-${row}` }, this.names.shown(row)); }

  reveal(row) {
    if (!this.order.includes(row)) {
      for (const input of [this.search, ...this.filters]) input.value = '';
      this.update();
    }
    this.scroller.scrollIntoView({ block: 'center' });
    this.scroller.scrollTop = this.order.indexOf(row) * this.height - this.scroller.clientHeight / 2;
  }
}

class Card {
  constructor(tables) {
    this.tables = tables;
    this.box = element('aside', { class: 'card', hidden: true });
    document.body.append(this.box);
    // A keyboard reaches exams through the table's names: a drawing has thousands of points.
    for (const each of document.querySelectorAll('svg a')) each.tabIndex = -1;
    addEventListener('hashchange', () => this.open());
    addEventListener('keydown', (event) => { if (event.key === 'Escape') this.close(); });
    this.open();
  }

  open() {
    const [, id, digits] = /^#(\w+)-(\d+)$/.exec(location.hash) || [];
    const table = this.tables.find((each) => each.id === id), row = Number(digits);
    if (!table || row >= table.count) return;
    const values = [];
    for (const column of table.columns.slice(1)) {
      if (column.shown(row) === '' || column.shown(row) === '–') continue;
      const link = column.to && table.link(column.to(row));
      values.push(element('dt', {}, column.name), element('dd', {}, link || column.shown(row)));
    }
    this.box.replaceChildren(
      element('p', { class: 'tools' }, element('strong', {}, table.names.shown(row)),
        element('button', { onclick: () => table.reveal(row) }, 'show in the table'),
        element('button', { 'aria-label': 'close', onclick: () => this.close() }, '×')),
      element('dl', {}, ...values), ...this.sheet(table, row));
    this.box.hidden = false;
    this.mark(location.hash);
  }

  sheet(table, row) {
    const pictures = table.pictures[row];
    if (!pictures) return table.withoutPictures ? [element('p', { class: 'rest' }, table.withoutPictures)] : [];
    return [element('div', { class: 'sheet' }, ...pictures.map(([alt, jpeg]) => element('figure', {},
      jpeg ? element('img', { alt, src: `data:image/jpeg;base64,${jpeg}` }) : '',
      element('figcaption', {}, alt))))];
  }

  // Shows where in drawings the row is.
  mark(link) {
    for (const each of document.querySelectorAll('svg a')) each.classList.toggle('here', each.getAttribute('href') === link);
  }

  close() {
    this.box.hidden = true;
    this.mark('');
    history.replaceState(null, '', location.pathname + location.search);
  }
}

// Decisions of binary labels at a threshold that moves: counts, and what follows from them.
class Threshold {
  constructor(root) {
    const data = JSON.parse(root.querySelector('script').textContent);
    this.scores = unpack(data.scores, Float32Array);
    this.positive = unpack(data.positive, Uint8Array);
    const moved = ({ target }) => {
      if (target.value !== '' && target.value >= 0 && target.value <= 1) this.show(Number(target.value));
    };
    const input = (type) => element('input', { type, min: 0, max: 1, step: 0.001, 'aria-label': 'threshold', oninput: moved });
    const table = (name, heads, rows) => element('table', { class: name },
      element('thead', {}, element('tr', {}, ...heads)), element('tbody', {}, ...rows));
    const numbers = (names) => names.map((name) => element('th', { class: 'num' }, name));
    Object.assign(this, { slider: input('range'), number: input('number'), row: element('tr') });
    this.counts = data.classes.map((name) => element('tr', {}, element('th', {}, name)));
    root.append(element('div', { class: 'live' },
      element('p', { class: 'tools' }, 'decide for ', element('strong', {}, data.classes[1]), ' from', this.slider, this.number),
      table('shares', numbers(['sensitivity', 'specificity', 'PPV', 'NPV', 'accuracy']), [this.row]),
      table('counts', [element('th', {}, 'truly'), ...numbers(data.classes.map((name) => `decided ${name}`))], this.counts)));
    root.classList.add('scripted');
    this.show(data.threshold);
  }

  show(threshold) {
    const at = [[0, 0], [0, 0]];  // [truth][decision]
    this.scores.forEach((score, i) => { at[this.positive[i]][Number(score >= Math.fround(threshold))] += 1; });
    const [[tn, fp], [fn, tp]] = at;
    const share = (part, all) => (all ? (part / all).toFixed(3) : '–');
    const figures = [share(tp, tp + fn), share(tn, tn + fp), share(tp, tp + fp), share(tn, tn + fn), share(tp + tn, this.scores.length)];
    this.row.replaceChildren(...figures.map((figure) => element('td', { class: 'num' }, figure)));
    this.counts.forEach((row, truth) => row.replaceChildren(row.firstChild,
      ...at[truth].map((count) => element('td', { class: 'num' }, String(count)))));
    if (this.slider.value !== String(threshold)) this.slider.value = threshold;
    if (document.activeElement !== this.number) this.number.value = threshold;
  }
}

document.querySelectorAll('.threshold').forEach((root) => new Threshold(root));
const tables = [...document.querySelectorAll('.data')].map((root) => new Table(root));
if (tables.length) new Card(tables);
