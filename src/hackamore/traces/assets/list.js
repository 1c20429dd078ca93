// A list of any length: only the rows that can be seen are elements.

const HIGHEST = 8e6; // browsers limit the height of an element

class VirtualList {
  constructor(place, draw, choose) {
    this.place = place;
    this.draw = draw;
    this.choose = choose;
    this.rows = [];
    this.active = -1;
    this.height = 28;
    this.inner = el("div", { class: "inner", role: "presentation" });
    place.append(this.inner);
    this.pending = false;
    place.addEventListener("scroll", () => this.later(), { passive: true });
    new ResizeObserver(() => this.measure()).observe(place);
    place.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (row) this.select(Number(row.dataset.at), true);
    });
  }

  measure() {
    const height = parseInt(getComputedStyle(this.place).getPropertyValue("--row"), 10) || 28;
    if (height !== this.height) {
      this.height = height;
      this.size();
    }
    this.later();
  }

  set(rows, keep) {
    const bottom = this.place.scrollTop + this.place.clientHeight >= this.place.scrollHeight - 4;
    this.rows = rows;
    this.active = keep === undefined ? -1 : rows.indexOf(keep);
    this.size();
    if (bottom && this.tail) this.place.scrollTop = this.place.scrollHeight;
    this.render();
  }

  size() {
    const whole = this.rows.length * this.height;
    this.ratio = whole > HIGHEST ? whole / HIGHEST : 1;
    this.inner.style.height = `${Math.min(whole, HIGHEST)}px`;
  }

  later() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.render();
    });
  }

  get top() {
    return this.place.scrollTop * this.ratio;
  }

  render() {
    const view = this.place.clientHeight;
    const first = Math.max(0, Math.floor(this.top / this.height) - 6);
    const last = Math.min(this.rows.length, Math.ceil((this.top + view) / this.height) + 6);
    const shift = this.place.scrollTop - this.top;
    const made = [];
    const put = (at) => {
      const row = this.draw(this.rows[at], at);
      row.classList.add("row");
      row.id = `row-${at}`;
      row.dataset.at = at;
      row.setAttribute("role", "option");
      row.setAttribute("aria-selected", String(at === this.active));
      row.setAttribute("aria-setsize", this.rows.length);
      row.setAttribute("aria-posinset", at + 1);
      row.style.transform = `translateY(${at * this.height + shift}px)`;
      made.push(row);
    };
    for (let at = first; at < last; at++) put(at);
    const apart = this.active >= 0 && (this.active < first || this.active >= last);
    if (apart && this.ratio === 1) put(this.active);
    this.inner.replaceChildren(...made);
    if (this.active >= 0 && (!apart || this.ratio === 1)) this.place.setAttribute("aria-activedescendant", `row-${this.active}`);
    else this.place.removeAttribute("aria-activedescendant");
  }

  select(at, tell) {
    if (!this.rows.length) return;
    this.active = Math.max(0, Math.min(this.rows.length - 1, at));
    this.reveal();
    this.render();
    if (tell) this.choose(this.rows[this.active]);
  }

  reveal() {
    const begin = this.active * this.height;
    const view = this.place.clientHeight;
    if (begin < this.top || begin + this.height > this.top + view) {
      this.place.scrollTop = Math.max(0, begin - view / 3) / this.ratio;
    }
  }
}
