"use strict";
// Everything that comes from a reply is written as text, never as HTML.
const status = document.getElementById("status");
const reply = document.getElementById("reply");
const answers = document.getElementById("answers");
const reasons = document.getElementById("reasons");
const command = document.getElementById("command");
const buttons = document.querySelectorAll("button[data-path]");

function addRow(parent, cells, kind) {
  const row = parent.insertRow();
  for (const cell of cells) {
    const element = document.createElement(kind);
    element.textContent = cell;
    row.append(element);
  }
}

function showAnswers(content) {
  const classes = Object.keys(content.answers[0].probabilities);
  answers.tHead.replaceChildren();
  answers.tBodies[0].replaceChildren();
  addRow(answers.tHead, ["person", "answer", "undecided", ...classes], "th");
  content.answers.forEach((answer, k) => {
    const shares = classes.map((name) => answer.probabilities[name].toFixed(4));
    addRow(answers.tBodies[0], [k, String(answer.answer), answer.undecided ? "yes" : "no", ...shares], "td");
  });
}

function showReasons(content) {
  reasons.replaceChildren(
    ...content.people.map((person) => {
      const paragraph = document.createElement("p");
      paragraph.textContent = `Person ${person.person}. ${person.sentences}`;
      return paragraph;
    }),
  );
}

async function send(path) {
  for (const button of buttons) button.disabled = true;
  status.className = "";
  status.textContent = "…";
  const start = performance.now();
  try {
    const response = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: document.getElementById("body").value,
    });
    const text = await response.text();
    const content = JSON.parse(text);
    const milliseconds = Math.round(performance.now() - start);
    status.className = response.ok ? "" : "error";
    const notes = response.ok ? content.notes.map((note) => `\nNote: ${note}`).join("") : `: ${content.error}`;
    status.textContent = `${response.status}, ${milliseconds} ms${notes}`;
    answers.hidden = !(response.ok && content.answers);
    if (!answers.hidden) showAnswers(content);
    reasons.hidden = !(response.ok && content.people);
    if (!reasons.hidden) showReasons(content);
    reply.textContent = JSON.stringify(content, null, 1);
    reply.hidden = false;
  } catch (error) {
    status.className = "error";
    status.textContent = `The service did not answer (${error.message}).`;
  } finally {
    for (const button of buttons) button.disabled = false;
  }
}

command.textContent = command.textContent.replace("http://localhost:8000", location.origin);
for (const button of buttons) button.addEventListener("click", () => send(button.dataset.path));
