// Suggestions under the search box during typing, and a box that filters a long list of choices.
// Without this file the search box is a plain form, and the list of choices is whole.
"use strict";

(() => {
  const WAIT_MS = 150;
  const form = document.querySelector("form.search");
  const input = form.querySelector("input");
  const list = document.createElement("ul");
  list.id = "suggestions";
  list.className = "suggestions";
  list.setAttribute("role", "listbox");
  list.hidden = true;
  form.append(list);
  input.setAttribute("role", "combobox");
  input.setAttribute("aria-autocomplete", "list");
  input.setAttribute("aria-controls", list.id);
  input.setAttribute("aria-expanded", "false");
  input.autocomplete = "off";

  let chosen = -1;
  let timer = 0;
  let asked = "";

  function close() {
    list.hidden = true;
    chosen = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function choose(at) {
    const options = [...list.children];
    chosen = options.length ? (at + options.length) % options.length : -1;
    options.forEach((option, index) => option.setAttribute("aria-selected", String(index === chosen)));
    if (chosen >= 0) {
      input.setAttribute("aria-activedescendant", options[chosen].id);
    }
  }

  // Names come from anywhere: they are only ever text.
  function optionOf(suggestion, index) {
    const option = document.createElement("li");
    option.id = `suggestion-${index}`;
    option.setAttribute("role", "option");
    const link = document.createElement("a");
    link.href = form.action.replace(/\/search$/, "") + suggestion.href;
    link.tabIndex = -1;
    const name = document.createElement("bdi");
    name.textContent = suggestion.name;
    const kind = document.createElement("span");
    kind.className = "dim";
    kind.textContent = [suggestion.kind, suggestion.place].filter(Boolean).join(" · ");
    link.append(name, kind);
    option.append(link);
    return option;
  }

  async function suggest() {
    const text = input.value.trim();
    asked = text;
    if (!text) {
      close();
      return;
    }
    try {
      const answer = await fetch(`${form.action}/suggest?q=${encodeURIComponent(text)}`);
      const found = answer.ok ? await answer.json() : [];
      if (asked !== text) {
        return;
      }
      list.replaceChildren(...found.map(optionOf));
      close();
      list.hidden = found.length === 0;
      input.setAttribute("aria-expanded", String(found.length > 0));
    } catch {
      close();
    }
  }

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(suggest, WAIT_MS);
  });
  input.addEventListener("keydown", (event) => {
    if (list.hidden) {
      return;
    }
    if (event.key === "ArrowDown") {
      choose(chosen + 1);
    } else if (event.key === "ArrowUp") {
      choose(chosen < 0 ? -1 : chosen - 1);
    } else if (event.key === "Escape") {
      close();
    } else if (event.key === "Enter" && chosen >= 0) {
      window.location.assign(list.children[chosen].firstChild.href);
    } else {
      return;
    }
    event.preventDefault();
  });
  document.addEventListener("click", (event) => {
    if (!form.contains(event.target)) {
      close();
    }
  });
})();

(() => {
  for (const list of document.querySelectorAll(".choose form ul")) {
    const box = document.createElement("input");
    box.type = "search";
    box.placeholder = "Find a column";
    box.setAttribute("aria-label", box.placeholder);
    box.addEventListener("input", () => {
      const words = box.value.toLowerCase().split(/\s+/);
      for (const item of list.children) {
        const text = item.textContent.toLowerCase();
        item.hidden = !words.every((word) => text.includes(word));
      }
    });
    // It narrows the list: there is nothing to send.
    box.addEventListener("keydown", (event) => {
      if (event.key === "Enter") {
        event.preventDefault();
      }
    });
    list.before(box);
  }
})();
