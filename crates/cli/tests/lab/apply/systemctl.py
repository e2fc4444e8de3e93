#!/usr/bin/python3
"""Of systemd what plans call, for a machine where it is not the first process: units are read, started and stopped for real.

Type=notify waits for READY=1; what a service tells is in /tmp/state/UNIT.told, what it prints in /tmp/state/UNIT.log.
"""
import os, shlex, signal, socket, sys, time

UNITS, STATE = "/etc/systemd/system", "/tmp/state"


def path(unit, what):
    return f"{STATE}/{unit}.{what}"


def keys(unit):
    text = open(f"{UNITS}/{unit}").read()
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))


def pid(unit):
    try:
        number = int(open(path(unit, "pid")).read())
        return number if open(f"/proc/{number}/stat").read().split(") ")[1][0] != "Z" else None
    except (OSError, ValueError):
        return None


def start(unit):
    if pid(unit):
        return
    service = keys(unit)
    words = [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(service["ExecStart"])]
    heard, environment = None, dict(os.environ)
    if service.get("Type") == "notify":
        name = path(unit, "socket")
        if os.path.exists(name):
            os.unlink(name)
        heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        heard.bind(name)
        environment.update(NOTIFY_SOCKET=name, WATCHDOG_USEC=os.environ.get("TEST_WATCHDOG_USEC", "60000000"))
    child = os.fork()
    if child == 0:
        os.setsid()
        log = os.open(path(unit, "log"), os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0), os.dup2(log, 1), os.dup2(log, 2)
        os.execve(words[0], words, environment)
    open(path(unit, "pid"), "w").write(str(child))
    if heard is None:
        return
    heard.settimeout(0.05)
    told = open(path(unit, "told"), "a", buffering=1)
    while True:
        try:
            text = heard.recv(100).decode()
        except TimeoutError:
            if os.waitpid(child, os.WNOHANG)[0]:
                sys.exit(f"Job for {unit} failed because the control process exited with error code.")
            continue
        print(text, file=told)
        if text == "READY=1":
            break
    # Somebody goes on listening.
    if os.fork() == 0:
        os.setsid()
        for out in (1, 2):
            os.dup2(os.open("/dev/null", os.O_WRONLY), out)
        while True:
            try:
                print(heard.recv(100).decode(), file=told)
            except TimeoutError:
                if pid(unit) is None:
                    os._exit(0)


def stop(unit):
    number = pid(unit)
    if number:
        os.kill(number, signal.SIGTERM)
    while pid(unit):
        time.sleep(0.01)
    open(path(unit, "pid"), "w").write("none")


def main(verb, *words):
    unit = words[-1] if words else None
    open(f"{STATE}/systemctl.log", "a").write(" ".join([verb, *words]) + "\n")
    if verb == "--version":
        print("systemd 252 (stand-in)")
    elif verb == "daemon-reload":
        pass
    elif verb in ("enable", "disable"):
        if verb == "enable":
            keys(unit)
            open(path(unit, "enabled"), "w").close()
        elif os.path.exists(path(unit, "enabled")):
            os.unlink(path(unit, "enabled"))
        if "--now" in words:
            start(unit) if verb == "enable" else stop(unit)
    elif verb == "is-enabled":
        sys.exit(0 if os.path.exists(path(unit, "enabled")) else 1)
    elif verb == "is-active":
        print("active" if pid(unit) else "inactive")
        sys.exit(0 if pid(unit) else 3)
    elif verb == "start":
        start(unit)
    elif verb == "stop":
        stop(unit)
    elif verb == "restart":
        stop(unit)
        start(unit)
    else:
        sys.exit(f"systemctl: {verb} is not known here")


main(*sys.argv[1:])
