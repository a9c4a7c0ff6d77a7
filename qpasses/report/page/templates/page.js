// The page's data, the theme, and boxes over pictures.
const packed = Uint8Array.from(atob(document.getElementById("data").textContent), c => c.charCodeAt(0));
const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
const nodes = await new Response(unpacked).json();

const theme = document.getElementById("theme");
const dark = matchMedia("(prefers-color-scheme: dark)");

function showTheme() {
  const chosen = document.documentElement.dataset.theme;
  theme.setAttribute("aria-pressed", chosen ? chosen === "dark" : dark.matches);
}

theme.addEventListener("click", () => {
  const isDark = theme.getAttribute("aria-pressed") === "true";
  document.documentElement.dataset.theme = isDark ? "light" : "dark";
  showTheme();
});
dark.addEventListener("change", showTheme);
showTheme();

for (const found of document.querySelectorAll(".found")) {
  const [picture, boxes] = found.children;
  picture.src = document.getElementById(picture.dataset.picture).src;  // once in the file
  picture.decode().then(() => {
    boxes.setAttribute("viewBox", `0 0 ${picture.naturalWidth} ${picture.naturalHeight}`);
  }, () => boxes.remove());
}

// An element with attributes, holding texts or elements.
function made(name, attributes = {}, ...content) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...content);
  return element;
}
