#!/bin/sh
# Runs once before the server and the workers start: brings the ledger's tables to this version, or makes a new ledger
# with its first tokens. /secrets is deploy/secrets.
set -eu

if ! arl db upgrade; then
  # A ledger that cannot be used is told of again below. A server without a token would be open, and does not start.
  [ ! -s /secrets/admin_token ] || exit 1
  echo "No ledger yet: the first token makes it."
fi

# Into the file that is there, which Prometheus' container has mounted.
token() {
  [ ! -s "/secrets/$1_token" ] || return 0
  made=$(arl token create "$1" --scope "$2")
  printf '%s' "$made" >"/secrets/$1_token"
  echo "Token $1 ($2) is in secrets/$1_token."
}

token admin admin
token prometheus read
