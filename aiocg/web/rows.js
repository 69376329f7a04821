// A list of buttons with numbers behind them, in elements of the browser's own: it is drawn anew with every message.
export default {
  template: `
    <ol class="rows" :class="kind" @keydown="walk">
      <li v-for="row in parsed" :key="row.id" v-memo="[row]" :style="{ paddingLeft: 14 * (row.level || 0) + 'px' }">
        <button type="button" v-bind="{ ['data-' + kind]: row.id }" :title="row.title" :aria-label="row.said"
          :aria-current="row.here ? 'true' : null" @click="$emit('choose', row.id)">
          <span class="ellipsis">{{ row.text }}</span>
          <span v-for="cell in row.cells" class="gain" :class="cell.color">{{ cell.text }}</span>
        </button>
      </li>
    </ol>`,
  props: { rows: String, kind: String }, // the rows as JSON
  emits: ["choose"],
  computed: {
    parsed() {
      return JSON.parse(this.rows);
    },
  },
  mounted() {
    this.show();
  },
  beforeUpdate() {
    this.focused = this.$el.contains(document.activeElement) ? document.activeElement.dataset[this.kind] : undefined;
  },
  updated() {
    this.show();
    if (this.focused === undefined || this.$el.contains(document.activeElement)) return;
    const buttons = [...this.$el.querySelectorAll("button")]; // the one in focus was moved, or is gone
    const same = buttons.find((button) => button.dataset[this.kind] === this.focused);
    (same || buttons[0])?.focus({ preventScroll: !same });
  },
  methods: {
    show() {
      const here = this.$el.querySelector("[aria-current]");
      if (here?.dataset[this.kind] !== this.shown) here?.scrollIntoView({ block: "nearest" });
      this.shown = here?.dataset[this.kind];
    },
    walk(event) {
      const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!by) return;
      const buttons = [...this.$el.querySelectorAll("button")];
      buttons[buttons.indexOf(document.activeElement) + by]?.focus();
      event.preventDefault();
    },
  },
};
