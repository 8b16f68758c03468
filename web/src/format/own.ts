/** What a table has under a name that somebody else chose: `constructor` and `__proto__` are names
 *  like any other, and nothing that every object has. */
export function own<T>(table: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}
