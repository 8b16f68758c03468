import js from "@eslint/js";
import jsxA11y from "eslint-plugin-jsx-a11y";
import reactHooks from "eslint-plugin-react-hooks";
import globals from "globals";
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["node_modules", "src/api/schema.d.ts"] },
  js.configs.recommended,
  {
    files: ["src/**/*.{ts,tsx}"],
    extends: [
      ...tseslint.configs.strictTypeChecked,
      ...tseslint.configs.stylisticTypeChecked,
      jsxA11y.flatConfigs.strict,
      reactHooks.configs.flat["recommended-latest"],
    ],
    languageOptions: {
      globals: globals.browser,
      parserOptions: { project: "./tsconfig.app.json" },
    },
    rules: {
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      // What a candidate wrote is text, wherever it is shown.
      "no-restricted-syntax": [
        "error",
        {
          selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']",
          message: "Nothing is ever set as HTML.",
        },
        {
          selector: "AssignmentExpression > MemberExpression[property.name=/^(inner|outer)HTML$/]",
          message: "Nothing is ever set as HTML.",
        },
      ],
      // Of the compiler, which is not used: a virtualiser cannot be memoised.
      "react-hooks/incompatible-library": "off",
      "max-lines": ["error", { max: 300 }],
      complexity: ["error", 14],
    },
  },
  {
    // What is shown or not is a branch each, and no harder to read for it.
    files: ["src/**/*.tsx"],
    rules: { complexity: ["error", 20] },
  },
  {
    files: ["*.{js,ts}", "scripts/**", "public/**"],
    languageOptions: { globals: { ...globals.node, ...globals.browser } },
  },
  { files: ["*.ts"], extends: [tseslint.configs.base] },
);
