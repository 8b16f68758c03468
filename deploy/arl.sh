#!/bin/sh
# The command line as the units have it: user arl, the settings of /etc/arl/arl.env. For root; installed as /usr/local/bin/arl.
# Files that it is given must be readable for user arl.
exec systemd-run --quiet --collect --wait --pipe --uid=arl --gid=arl --property=EnvironmentFile=/etc/arl/arl.env \
  --property=UMask=0077 --property=WorkingDirectory="-$PWD" -- /opt/arl/bin/arl "$@"
