"""The `metalcore` command."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import click

from metalcore.tools.sanitize import Options, ProgramCommand, report_options, sanitize_program
from metalcore.tools.values import pair, sizes

EPILOG = """\b
Examples:
  metalcore demo
  metalcore run examples/saxpy.metal saxpy arange:float32:8 ones:float32:8 2.5 --threads 8
  metalcore run my_program_for_a_mac.py --its --options
  metalcore sanitize my_program.py --its --options
  metalcore check examples/*.metal
  metalcore inspect examples/rms_norm.metal --json
  metalcore health rms_norm softmax --html health.html
  metalcore precompile rms_norm linalg.svd
"""
MODES = ("checked", "fast")
MATH_MODES = click.Choice(["safe", "relaxed", "fast"])


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=EPILOG)
@click.version_option(package_name="metalcore-kernels", prog_name="metalcore")
def cli() -> None:
    """Compile Metal kernels (MSL) for the CPU and run them: no Mac, no GPU."""


class Program(NamedTuple):
    """A Python program to run: the options before its name, and its own words."""

    mode: str
    sanitize: bool
    isolate: bool
    words: list[str]

    @staticmethod
    def find(words: list[str]) -> Program | None:
        """Only --mode, --sanitize and --isolate may stand before the .py file; all behind it is the program's."""
        mode, flags, at = "checked", set(), 0
        while at < len(words) and words[at] in ("--mode", "--sanitize", "--isolate"):
            if words[at] == "--mode":
                mode, at = (words[at + 1] if at + 1 < len(words) else ""), at + 1
            else:
                flags.add(words[at])
            at += 1
        if at >= len(words) or not words[at].endswith(".py"):
            return None
        return Program(mode, "--sanitize" in flags, "--isolate" in flags, words[at:])


constant_option = click.option(
    *("--constant", "-c", "constants"),
    type=pair,
    metavar="NAME=VALUE",
    multiple=True,
    help="A function constant, by name or index.",
)


class RunCommand(click.Command):
    """A .metal file and its options, or a Python program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        program = Program.find(args)
        if program is None:
            return super().parse_args(ctx, args)
        if program.mode not in MODES:
            raise click.UsageError(f"--mode is one of {', '.join(MODES)}, not '{program.mode}'")
        if program.sanitize and program.mode != "checked":
            raise click.UsageError(f"--mode {program.mode} and --sanitize are two modes: choose one")
        ctx.meta["program"] = program
        return []

    def invoke(self, ctx: click.Context) -> Any:
        program = ctx.meta.get("program")
        if program is None:
            return super().invoke(ctx)
        from metalcore.tools.run import isolated, run_script

        with isolated(program.isolate):
            if program.sanitize:
                sys.exit(sanitize_program(program.words, Options()))
            return run_script(program.words, program.mode)


@cli.command(cls=RunCommand, context_settings={"ignore_unknown_options": True})
@click.argument("file")
@click.argument("kernel")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="ARG...")
@click.option(
    "--threads",
    "-t",
    type=sizes,
    metavar="N[xM[xK]]",
    help="Threads in the grid. Default: the size of the first array.",
)
@click.option(
    "--threadgroups", "-G", type=sizes, metavar="N[xM[xK]]", help="The grid in threadgroups instead of threads."
)
@click.option("--group-size", "-g", type=sizes, metavar="N[xM[xK]]", help="Threads in a threadgroup.")
@constant_option
@click.option(
    "--threadgroup-memory",
    type=pair,
    metavar="NAME=VALUE",
    multiple=True,
    help="Bytes of a [[threadgroup(n)]] argument: 0=4096.",
)
@click.option("--save", multiple=True, metavar="DIR|I=PATH", help="Save what was written: all into a folder, or one.")
@click.option("--mode", type=click.Choice(MODES), default="checked", show_default=True)
@click.option("--math-mode", type=MATH_MODES, default="safe", show_default=True)
@click.option("--include", "-I", multiple=True, metavar="DIR", help="Where #include looks.")
@click.option("--define", "-D", multiple=True, metavar="NAME[=VALUE]", help="A macro.")
@click.option("--prelude", metavar="FILE", help="Lines that the kernel's host puts in front of it.")
@click.option("--repeat", type=click.IntRange(1), default=1, help="Run it so often and show the median time.")
@click.option("--isolate", is_flag=True, help="Compile and run in a sealed worker process: for code of strangers.")
@click.option("--sanitize", is_flag=True, help="Report races, barriers, bounds and more; the options below go with it.")
@report_options
def run(file: str, kernel: str, arguments: tuple[str, ...], sanitize: bool, **options: Any) -> None:
    """Run a kernel of FILE.metal, or a Python program that was written for a Mac.

    \b
    metalcore run FILE.metal KERNEL ARG... --threads N --group-size M
    metalcore run [--mode fast | --sanitize] [--isolate] PROGRAM.py [its arguments]

    \b
    Each ARG goes to the next [[buffer(n)]]:
      x.npy                     an array from a file
      zeros:float32:1024        and ones, arange; shapes of more dimensions are 64x64
      random:float32:64x64:7    standard normal floats or integers below 100, seed 7
      full:int32:16:5           sixteen fives
      2.5   1,2,3   true        numbers, converted to the type that the kernel declares
      none                      nothing

    Files are never changed: use --save to keep what the kernel wrote. A program runs inside metalcore.emulate().
    """
    from metalcore.tools.run import run_kernel

    report = Options.take(options)
    if not sanitize and report != Options():
        raise click.UsageError("options of the report go with --sanitize")
    if sanitize and options["mode"] == "fast":
        raise click.UsageError("--mode fast and --sanitize are two modes: choose one")
    sys.exit(run_kernel(file, kernel, arguments, sanitize=report if sanitize else None, **options))


@cli.command(
    cls=ProgramCommand,
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
    epilog="Exit status: the program's own where it fails, 1 with findings, 0 without, 2 for wrong use.",
)
@click.option("-m", "module", metavar="MODULE", help="Run a module, as python -m does.")
@report_options
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="PROGRAM.py [ARG]...")
def sanitize(module: str | None, words: tuple[str, ...], **options: Any) -> None:
    """Run a Python program and report what its kernels do wrong: races, missing barriers, bounds, no values, ...

    Every launch counts, whichever way it is called: metalcore.Library, compile_shader and metal_kernel, PyTorch's and
    MLX's own. A finding never stops the program, unless --fail-fast is given.
    """
    sys.exit(sanitize_program(words, Options.take(options), module=module))


@cli.command()
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--kernel", "-k", "kernels", multiple=True, help="Only this kernel; may be given more than once.")
@click.option("--all", "everything", is_flag=True, help="Arguments of every kernel, however many there are.")
@constant_option
@click.option("--include", "-I", multiple=True, metavar="DIR", help="Where #include looks.")
@click.option("--define", "-D", multiple=True, metavar="NAME[=VALUE]", help="A macro.")
@click.option("--prelude", metavar="FILE", help="Lines that the kernel's host puts in front of it.")
def inspect(file: str, **options: Any) -> None:
    """Show the kernels of FILE.metal with their arguments, and its function constants."""
    from metalcore.tools.inspect import inspect_file

    inspect_file(file, **options)


@cli.command()
@click.argument("files", nargs=-1, metavar="FILE...")
@click.option(
    "--format", "-f", type=click.Choice(["text", "json", "sarif", "github"]), default="text", show_default=True
)
@click.option("--include", "-I", multiple=True, metavar="DIR", help="Where #include looks.")
@click.option("--define", "-D", multiple=True, metavar="NAME[=VALUE]", help="A macro.")
@click.option("--silence", "-s", multiple=True, metavar="RULE", help="Leave a rule out; may be given more than once.")
@click.option("--only", multiple=True, metavar="RULE", help="Only this rule; may be given more than once.")
@click.option("--output", "-o", metavar="FILE", help="Write the findings there instead of to stdout.")
@click.option(
    "--level",
    type=click.Choice(["note", "warning", "error"]),
    default="note",
    show_default=True,
    help="Leave out what is less serious.",
)
@click.option("--metal-version", default="3.1", show_default=True, help="The version of Metal that the code is for.")
@click.option(
    "--math-mode", type=MATH_MODES, help="How the code will be compiled. Default: fast, as Metal does; safe for MLX."
)
@click.option(
    "--mlx/--no-mlx", default=None, help="FILE is the body of an mx.fast.metal_kernel. Default: see for itself."
)
@click.option("--list-rules", is_flag=True, help="Show all rules.")
@click.option("--explain", metavar="RULE", help="Show a rule's page, with wrong and right code.")
def check(files: tuple[str, ...], list_rules: bool, explain: str | None, **options: Any) -> None:
    """Compile every kernel of each FILE and look for mistakes in it.

    A FILE is Metal source, a Python program (the literals in it that go to compile_shader, metal_kernel and Library),
    or a folder of these.

    The exit status is 0 where nothing is found, 1 where something is, 2 where a file is missing or does not compile.
    A comment silences a rule for its line or the next, or for the file:

    \b
      // metalcore: silence(integer-division)
      // metalcore: silence-file(unused-parameter)
    """
    from metalcore.tools import check as checking

    if list_rules:
        checking.list_rules()
    elif explain is not None:
        checking.explain(explain)
    else:
        sys.exit(checking.check_files(files, **options))


@cli.command()
@click.argument("names", nargs=-1, metavar="[CHIP|FAMILY]...")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def families(names: tuple[str, ...], as_json: bool) -> None:
    """Show the limits and features of Apple's GPU families, which METALCORE_TARGET and metalcore.target choose from."""
    from metalcore.tools.families import show_families

    show_families(names, as_json)


@cli.command()
@click.option("--clear", is_flag=True, help="Remove every compiled kernel. Programs that run are not disturbed.")
@click.option("--prune", is_flag=True, help="Remove what was not used for longest, where there is more than the limit.")
def cache(clear: bool, prune: bool) -> None:
    """Show where compiled kernels are kept (METALCORE_CACHE) and how many there are (METALCORE_CACHE_SIZE)."""
    from metalcore.tools.cache import describe, remove, shrink

    if clear or prune:
        click.echo(remove() if clear else shrink())
        return
    good, text = describe()
    click.echo(text)
    sys.exit(0 if good else 1)


@cli.command()
@click.argument("ops", nargs=-1, metavar="[OP]...")
@click.option("--dtype", "-d", "dtypes", multiple=True, metavar="DTYPE", help="float32, float16 or bfloat16 only.")
@click.option("--jobs", "-j", type=click.IntRange(1), help="Processes. Default: one a core.")
def precompile(ops: tuple[str, ...], dtypes: tuple[str, ...], jobs: int | None) -> None:
    """Compile the library's kernels into the cache ahead of time, for images and CI; all ops by default.

    Each op (rms_norm, linalg.svd, ...) is called on its fuzzed cases in each dtype, with gradients where PyTorch is
    installed, so that its own plans choose the kernels. What is in the cache already is not compiled again. Exit status
    0: all went well.
    """
    from metalcore.tools.precompile import precompile as compile_ahead

    sys.exit(0 if compile_ahead(ops, dtypes, jobs) else 1)


@cli.command()
def doctor() -> None:
    """Check this machine: versions, CPU, compiler, cache, and a kernel really compiled and run."""
    from metalcore.tools.doctor import examine

    sys.exit(0 if examine() else 1)


@cli.command()
@click.argument("ops", nargs=-1, metavar="[OP]...")
@click.option("--dtype", "-d", "dtypes", multiple=True, metavar="DTYPE", help="float32, float16 or bfloat16 only.")
@click.option("--route", "-r", "routes", multiple=True, metavar="ROUTE", help="Only this way to run; see below.")
@click.option("--cases", "-n", type=click.IntRange(1), help="Fuzzed cases of each. Default: 40.")
@click.option("--seed", type=int, help="Of the fuzzed shapes and values. Default: the stored one.")
@click.option("--jobs", "-j", type=click.IntRange(1), help="Processes. Default: one a core.")
@click.option("--json", metavar="FILE", help="Every case, as JSON.")
@click.option("--junit", metavar="FILE", help="For a CI system.")
@click.option("--html", metavar="FILE", help="A page with plots of errors and times.")
@click.option("--linalg", is_flag=True, help="Linear algebra, on LAPACK's kinds of matrices, by LAPACK's test ratios.")
@click.option("--size", "sizes", type=click.IntRange(0), multiple=True, help="With --linalg: only this size.")
def health(linalg: bool, sizes: tuple[int, ...], **options: Any) -> None:
    """Run the library's ops on fuzzed shapes and compare each with float64.

    The error may be twice that of PyTorch in the same dtype, for gradients three times. With --linalg: every function
    of metalcore.linalg, or of these families; the ratio may be 30 (35 for svd, 60 for eigh) times n * eps. Exit status
    0: all good.

    \b
    Routes:
      torch      CPU tensors through the engine
      numpy      NumPy arrays through the engine, forward
      mps        tensors on a Mac's GPU, where there is one
      mlx        mlx arrays: the GPU where there is one, else the engine
      mps-text   the text that torch.mps.compile_shader gets, run by the engine
      mlx-text   the text that mx.fast.metal_kernel gets, run by the engine
      apple      with --linalg: the launches that a GPU would get, run by the engine
    """
    from metalcore.health.command import Asked

    asked = Asked(**options)
    if linalg:
        from metalcore.health.linalg.command import health_of_linalg

        sys.exit(0 if health_of_linalg(asked, sizes) else 1)
    if sizes:
        raise click.UsageError("--size is for --linalg; fused ops are run on fuzzed shapes")
    from metalcore.health.command import health as examine

    sys.exit(0 if examine(asked) else 1)


@cli.command()
@click.option("--quick", is_flag=True, help="Small sizes, few repetitions.")
def demo(quick: bool) -> None:
    """Compile and run real Metal kernels, compare them with NumPy, and catch a broken one."""
    from metalcore.tools.demo import show

    sys.exit(0 if show(quick) else 1)


def _runs_a_program(words: list[str]) -> bool:
    return words[:1] == ["run"] and Program.find(words[1:]) is not None


def main() -> None:
    """Entry point: what the user did wrong is a short message, not a traceback."""
    from metalcore.errors import MetalcoreError
    from metalcore.packages import check_imported

    script = _runs_a_program(sys.argv[1:])
    try:
        check_imported()
        cli(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(1)
    except (MetalcoreError, OSError, MemoryError) as error:
        if script:  # an error of the user's own program is shown as Python shows it
            raise
        click.echo(f"metalcore: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        if script:
            raise
        click.echo("metalcore: stopped", err=True)
        sys.exit(130)


if __name__ == "__main__":
    main()
