# Boots systemd in the namespaces that it is started in, on a copy of this machine's files that nobody else sees, and has it run
# /test/script.sh, which is in the folder $1; ends with it.
set -e
mount --make-rprivate /
mount -t tmpfs none /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work none /mnt/root
root=/mnt/root
mount -t proc none $root/proc
mount -t sysfs none $root/sys
mount --rbind /dev $root/dev
for folder in run tmp var/lib etc/systemd/system; do mount -t tmpfs none $root/$folder; done
mount -t tmpfs none $root/sys/fs/cgroup
mkdir -p $root/sys/fs/cgroup/systemd $root/sys/fs/cgroup/unified $root/test
# Whichever of the two hierarchies the machine has; systemd takes what it finds.
mount -t cgroup -o none,name=systemd none $root/sys/fs/cgroup/systemd || mount -t cgroup2 none $root/sys/fs/cgroup
mount --bind "$1" $root/test
cat > $root/etc/systemd/system/test.service <<'END'
[Unit]
SuccessAction=exit-force
FailureAction=exit-force
[Service]
Type=oneshot
WorkingDirectory=/test
ExecStart=/bin/bash /test/script.sh
StandardOutput=append:/test/told
StandardError=append:/test/told
END
printf '[Unit]\nRequires=test.service\n' > $root/etc/systemd/system/test.target
exec chroot $root env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --unit=test.target --log-target=null --show-status=0
