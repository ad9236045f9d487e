"""Another package with our import name, and modules of ours that are missing, are named with a remedy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import metalcore
from metalcore import packages
from metalcore.errors import MetalcoreError, MissingPackage

ROOT = Path(__file__).resolve().parents[2]


def install(folder: Path, name: str, module: str) -> None:
    """A distribution as pip leaves it in site-packages."""
    info = folder / f"{name}-0.1.7.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.7\n")
    (info / "RECORD").write_text(f"{module}/__init__.py,,\n")
    (folder / module).mkdir()
    (folder / module / "__init__.py").write_text("")


def test_another_distribution_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert packages.strangers() == [] and packages.conflict() == ""
    install(tmp_path, "metalcore", "metalcore")
    install(tmp_path, "harmless", "other")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert packages.strangers() == [("metalcore", "0.1.7", str(tmp_path / "metalcore"))]
    assert "pip uninstall metalcore, then" in packages.conflict()


def test_a_missing_module_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask() -> None:
        with packages.needed_for("metalcore.emulate"):
            import metalcore.gone  # type: ignore[import-not-found]  # noqa: F401

    with pytest.raises(MissingPackage, match=r"metalcore\.emulate: metalcore\.gone is missing\. To repair it: pip"):
        ask()
    install(tmp_path, "metalcore", "metalcore")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(MissingPackage, match=r"is missing\. Another package .* metalcore 0\.1\.7 in"):
        ask()


def test_the_command_says_whose_package_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages.check_imported()
    monkeypatch.setattr(metalcore, "__version__", "0.0.9")
    with pytest.raises(MetalcoreError, match=r"version 0\.0\.9\), which is not metalcore-kernels"):
        packages.check_imported()
    monkeypatch.undo()
    monkeypatch.setattr(metalcore, "__file__", None)  # what is left where another package's removal took ours along
    with pytest.raises(MetalcoreError, match=r"a folder without __init__\.py"):
        packages.check_imported()


def test_import_loads_next_to_nothing() -> None:
    """`import metalcore` is cheap by what it does not load, which does not depend on how busy the machine is."""
    program = "import sys; old = set(sys.modules); import metalcore; print(*set(sys.modules) - old)"
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(done.stdout.split())
    ours = {name for name in loaded if name.startswith("metalcore")}
    assert ours == {"metalcore", "metalcore.errors", "metalcore.forking", "metalcore.version"}
    assert len(loaded - ours) < 60
    assert not loaded & {"numpy", "llvmlite", "click", "rich", "platformdirs", "subprocess", "json", "asyncio"}


def test_the_mlx_extra_brings_what_linux_needs() -> None:
    """mlx alone has no libmlx.so there; what builds for macOS imports it too."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (linux,) = [need for need in extras["mlx"] if need.endswith("sys_platform == 'linux'")]
    assert linux.startswith("mlx[cpu]")
    assert any(need.startswith("mlx[cpu]==") for need in extras["release"])  # wheels bring the primitive
    assert "scripts/setup mlx\n" in (ROOT / "scripts" / "build-macos").read_text()
