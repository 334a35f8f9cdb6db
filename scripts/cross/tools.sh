# Sourced by scripts/check-cross and run by scripts/release: installs what cross builds need, and sets the environment for
# them. Safe to repeat, and quick when everything is there.
#
# zig compiles C and links for all systems. It brings the system libraries of macOS as lists of symbols, but no frameworks,
# so scripts/cross/frameworks has such lists of the two that we need.

cross_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cross_venv="$cross_root/interop/.deps/cross"

cross_install() {
  local pins="$cross_root/scripts/cross/requirements.txt" stamp="$cross_venv/requirements.txt"
  if ! cmp -s "$pins" "$stamp"; then
    python3 -m venv "$cross_venv"
    "$cross_venv/bin/pip" install --quiet --disable-pip-version-check -r "$pins"
    cp "$pins" "$stamp"
  fi
  local target installed
  installed=$(rustup target list --installed)
  for target in "$@"; do
    grep -qx "$target" <<<"$installed" || rustup target add "$target"
  done
}

# cross_cargo COMMAND TARGET ARGUMENT...: cargo with zig as the compiler and the linker.
cross_cargo() {
  local command=$1 target=$2
  shift 2
  local flags=${RUSTFLAGS:-}
  case $target in
    *-apple-darwin) flags="$flags -L framework=$cross_root/scripts/cross/frameworks" ;;
  esac
  PATH="$cross_venv/bin:$PATH" RUSTFLAGS="$flags" cargo-zigbuild "$command" --target "$target" "$@"
}
