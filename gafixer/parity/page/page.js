"use strict";
(() => {
  const facts = JSON.parse(document.getElementById("facts").textContent);
  const patched = facts.setting.patch;
  const FIRST = 60; // rows before "Show all"
  const WIDEST = 4; // powers of two on either side of the right ratio

  const make = (tag, options = {}, ...children) => {
    const { kind, ...more } = options;
    const node = Object.assign(document.createElement(tag), more);
    if (kind) node.className = kind;
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  };

  // How far from right: not finite before all, then by the error.
  const badness = (outcome) => {
    if (!outcome) return -1;
    if (outcome.verdict === undefined) return 1e9;
    return outcome.error === null ? 1e9 : outcome.error;
  };
  const worst = (variants, key) =>
    variants.reduce((found, v) => (badness(v[key]) > badness(found[key]) ? v : found), variants[0]);
  const ran = (variant) => variant.before && variant.before.trouble !== "not built";

  const heads = [];
  const unbuilt = [];
  for (const head of facts.heads) {
    const variants = head.variants.filter(ran);
    if (!variants.length) {
      const told = head.variants.map((v) => v.before && v.before.reason).find(Boolean);
      unbuilt.push([head.name, told || "no variant"]);
      continue;
    }
    heads.push({
      name: head.name, task: head.task, variants,
      before: worst(variants, "before").before,
      after: patched ? worst(variants, "after").after : null,
    });
  }

  const verdictOf = (outcome) => (outcome ? outcome.verdict || outcome.trouble || "" : "");
  const number = (value, digits = 3) => (value === null || value === undefined ? "–" : value.toFixed(digits));
  const small = (value) => (value === null || value === undefined ? "–" : value.toExponential(0).replace("e", "e"));

  const bar = (outcome, kind) => {
    if (!outcome || outcome.ratio === undefined || outcome.ratio === null) return make("span", { textContent: "–" });
    const at = Math.max(-WIDEST, Math.min(WIDEST, Math.log2(outcome.ratio || 2 ** -WIDEST)));
    const percent = (50 * at) / WIDEST;
    const mark = make("i");
    mark.style.left = `${Math.min(50, 50 + percent)}%`;
    mark.style.width = `${Math.abs(percent)}%`;
    const right = outcome.verdict === "parity" ? " right" : "";
    const figure = make("span", { kind: "figure", textContent: number(outcome.ratio) });
    return make("span", { kind: `ratio ${kind}${right}` }, make("span", { kind: "scale" }, mark), figure);
  };
  const tag = (outcome) => {
    const verdict = verdictOf(outcome);
    return make("span", { kind: `tag ${verdict === "parity" ? "good" : "bad"}`, textContent: verdict });
  };

  const COLUMNS = [
    ["head", (h) => h.name],
    ["as released", (h) => (h.before.ratio ?? Infinity)],
    ["cosine", (h) => (h.before.cosine ?? -2)],
    ["verdict", (h) => verdictOf(h.before)],
    ...(patched ? [["patched", (h) => (h.after?.ratio ?? Infinity)], ["error", (h) => badness(h.after)]] : []),
  ];

  let order = { column: 1, down: true };
  let all = false;
  const body = document.querySelector("#heads tbody");
  const find = document.getElementById("find");
  const task = document.getElementById("task");
  const verdict = document.getElementById("verdict");
  const more = document.getElementById("more");

  const cells = (first, before, after) => {
    const row = [first, make("td", {}, bar(before, "before")),
      make("td", { kind: "n", textContent: number(before && before.cosine) }), make("td", {}, tag(before))];
    if (patched) {
      row.push(make("td", {}, bar(after, "after")), make("td", { kind: "n", textContent: small(after && after.error) }));
    }
    return row;
  };

  const opened = (row, head) => {
    const rows = head.variants.map((variant) => {
      const told = variant.before.meaning || variant.before.reason || "";
      const first = make("td", {}, make("div", { textContent: variant.name }), make("small", { textContent: told }));
      return make("tr", { kind: "variant" }, ...cells(first, variant.before, variant.after));
    });
    row.after(...rows);
    return rows;
  };

  const rowOf = (head) => {
    const name = make("button", { type: "button", textContent: head.name });
    name.setAttribute("aria-expanded", "false");
    const first = make("td", { kind: "name" }, name, make("small", { textContent: head.task }));
    const row = make("tr", { kind: "head" }, ...cells(first, head.before, head.after));
    let rows = null;
    row.addEventListener("click", () => {
      if (rows) rows.forEach((r) => r.remove());
      rows = rows ? null : opened(row, head);
      name.setAttribute("aria-expanded", String(rows !== null));
    });
    return row;
  };

  const draw = () => {
    const wanted = find.value.trim().toLowerCase();
    const key = COLUMNS[order.column][1];
    const shown = heads.filter((h) =>
      h.name.toLowerCase().includes(wanted) && (!task.value || h.task === task.value) &&
      (!verdict.value || verdictOf(h.before) === verdict.value));
    shown.sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      const compared = x < y ? -1 : x > y ? 1 : 0;
      return (order.down ? -compared : compared) || a.name.localeCompare(b.name);
    });
    const some = all ? shown : shown.slice(0, FIRST);
    body.replaceChildren(...some.map(rowOf));
    more.hidden = some.length === shown.length;
    more.textContent = `Show all ${shown.length}`;
    document.getElementById("shown").textContent = `${shown.length} of ${heads.length} heads`;
    document.querySelectorAll("#heads thead th").forEach((th, i) => {
      if (i === order.column) th.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      else th.removeAttribute("aria-sort");
    });
  };

  document.querySelector("#heads thead").append(make("tr", {}, ...COLUMNS.map(([label], column) => {
    const button = make("button", { type: "button", textContent: label });
    button.addEventListener("click", () => {
      order = { column, down: order.column === column ? !order.down : column !== 0 };
      draw();
    });
    return make("th", { scope: "col" }, button);
  })));

  const fill = (select, values) =>
    [...new Set(values)].sort().forEach((value) => select.append(make("option", { value, textContent: value })));
  fill(task, heads.map((h) => h.task));
  fill(verdict, heads.map((h) => verdictOf(h.before)));
  for (const field of [find, task, verdict]) field.addEventListener("input", draw);
  more.addEventListener("click", () => { all = true; draw(); });

  const details = document.getElementById("unbuilt");
  details.hidden = !unbuilt.length;
  details.querySelector("summary").textContent = `${unbuilt.length} heads could not be built`;
  details.querySelector("tbody").append(...unbuilt.map(([name, reason]) =>
    make("tr", {}, make("th", { scope: "row", textContent: name }), make("td", { textContent: reason }))));
  draw();

  // Where the histogram is wider than the screen, its middle is what matters.
  for (const box of document.querySelectorAll(".scroll")) {
    if (box.querySelector(":scope > svg")) box.scrollLeft = (box.scrollWidth - box.clientWidth) * 0.55;
  }
})();
