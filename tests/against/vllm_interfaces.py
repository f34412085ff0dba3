"""Interfaces of vLLM's classes (`SupportsPP`, `SupportsLoRA`, `SupportsV0Only`, `HasInnerState`) by a release's sources, without importing them: names are followed through imports and
bases. Where a package chooses its module by platform, the CUDA branch counts."""
import ast

MODELS = "vllm/model_executor/models/"
INTERFACES = {"pipeline": "SupportsPP", "adapters": "SupportsLoRA"}
FLAGS = {"supports_pp": "SupportsPP", "supports_lora": "SupportsLoRA", "supports_v0_only": "SupportsV0Only", "has_inner_state": "HasInnerState"}  # set or unset in a class of its own
OLDEST = {"pipeline": (0, 6, 3), "adapters": (0, 5, 1)}  # before, other lists decided


class Sources:
    """Modules of one release: a text for each path that begins with vllm/."""

    def __init__(self, files):
        self.files, self.known = files, {}

    def path_of(self, module):
        path = module.replace(".", "/")
        return next((p for p in (path + ".py", path + "/__init__.py") if p in self.files), None)

    def names_of(self, module):
        """What a module defines or imports, by name: (module, node of the class) or (module, name there)."""
        if module not in self.known:
            path, names = self.path_of(module), {}
            self.known[module] = names
            if path:
                package = module if path.endswith("__init__.py") else module.rpartition(".")[0]
                self.read(ast.parse(self.files[path]).body, module, package, names)
        return self.known[module]

    def read(self, body, module, package, names):
        for statement in body:
            if isinstance(statement, ast.ClassDef):
                names[statement.name] = (module, statement)
            elif isinstance(statement, ast.ImportFrom):
                above = package.split(".")[:len(package.split(".")) + 1 - statement.level] if statement.level else []
                origin = ".".join(above + ([statement.module] if statement.module else []))
                names |= {alias.asname or alias.name: (origin, alias.name) for alias in statement.names}
            elif isinstance(statement, ast.If):
                other = any(f"is_{platform}" in ast.unparse(statement.test) for platform in ("rocm", "xpu", "cpu"))
                for branch in ([] if other else [statement.body]) + [statement.orelse]:
                    self.read(branch, module, package, names)
            elif isinstance(statement, ast.Try):
                self.read(statement.body, module, package, names)
            elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name) and statement.value.id in names:
                names |= {target.id: names[statement.value.id] for target in statement.targets if isinstance(target, ast.Name)}

    def find(self, module, name):
        """A class as (its module, its node); nothing for what is no class of vLLM."""
        for _ in range(16):  # of imports through packages
            module, name = self.names_of(module).get(name, (None, None))
            if name is None or isinstance(name, ast.ClassDef):
                break
        return (module, name) if name else None

    def interfaces(self, module, name):
        found = self.find(module, name)
        if found is None:
            return set()
        module, node = found
        interfaces = {node.name}.union(*(self.interfaces(module, base) for base in map(self.base_of, node.bases) if base))
        for statement in node.body:
            target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
            interface = FLAGS.get(getattr(target, "id", None))
            if interface and isinstance(statement.value, ast.Constant):
                interfaces = interfaces | {interface} if statement.value.value else interfaces - {interface}
        return interfaces

    @staticmethod
    def base_of(base):
        base = base.value if isinstance(base, ast.Subscript) else base
        return base.id if isinstance(base, ast.Name) else None

    def registry(self):
        """By architecture the module and class that vLLM's registry names."""
        text = next(self.files[p] for p in (MODELS + "registry.py", MODELS + "__init__.py") if p in self.files)
        rows = [(key.value, value.elts) for table in ast.walk(ast.parse(text)) if isinstance(table, ast.Dict)
                for key, value in zip(table.keys, table.values)
                if isinstance(key, ast.Constant) and isinstance(value, ast.Tuple) and len(value.elts) >= 2]
        return {key: (elements[0].value, elements[1].value) for key, elements in reversed(rows)}

    def classes(self):
        """By architecture the interfaces of its class; classes that vLLM makes while it runs are left out."""
        whole = lambda module: module if module.startswith("vllm.") else "vllm.model_executor.models." + module
        rows = {name: (whole(module), of_class) for name, (module, of_class) in self.registry().items()}
        return {name: self.interfaces(*row) for name, row in rows.items() if self.find(*row)}


def releases_with(interface, releases):
    """A field of classes.csv: releases (number, interfaces of the class) whose class has the interface. Empty: all; "none"; "0.14.0": since that one;
    "-0.27.0": before that one. A class that lost and regained it counts from the last change on."""
    known = [(number, INTERFACES[interface] in found) for number, found in releases if number >= OLDEST[interface]]
    if all(has for _, has in known):
        return ""
    if not any(has for _, has in known):
        return "none"
    change, has = [now for before, now in zip(known, known[1:]) if before[1] != now[1]][-1]
    return ("" if has else "-") + ".".join(map(str, change))


def second_engine(releases):
    """A field of classes.csv: since which of the releases with two engines (0.8.0 to 0.10.2) V1 runs the class. "0.9.2/0.10.2": where it is asked for since
    the first, by default since the second (arg_utils.py: "Mamba"). Empty: in all."""
    both = [(number, found) for number, found in releases if (0, 8, 0) <= number < (0, 11, 0)]
    behind = [number for number, _ in both[1:]] + [(0, 11, 0)]
    since = lambda lacks: next((after for (number, found), after in reversed(list(zip(both, behind))) if lacks(number, found)), None)
    only = lambda number, found: "SupportsV0Only" in found
    asked = since(only)
    chosen = since(lambda number, found: only(number, found) or ((0, 9, 2) <= number < (0, 10, 2) and "HasInnerState" in found))
    text = lambda number: ".".join(map(str, number)) if number else "0.8.0"
    return "" if chosen is None else text(chosen) if asked == chosen else f"{text(asked)}/{text(chosen)}"
