// Sorts a table by the column whose heading is clicked: by numbers where both cells begin with one.
document.querySelectorAll("table.sortable").forEach((table) => {
  table.querySelectorAll("th").forEach((heading, column) => {
    let up = true;
    heading.style.cursor = "pointer";
    heading.addEventListener("click", () => {
      const cell = (row) => row.cells[column].textContent.trim();
      const body = table.tBodies[0];
      const rows = Array.from(body.rows).sort((one, two) => {
        const difference = parseFloat(cell(one)) - parseFloat(cell(two));
        return (up ? 1 : -1) * (Number.isNaN(difference) ? cell(one).localeCompare(cell(two)) : difference);
      });
      up = !up;
      body.append(...rows);
    });
  });
});
