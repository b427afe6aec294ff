#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/grid_games.json: rollouts of the grid games and of chase, from their rules, written down anew.

Of each step: the action, the reward, whether the episode ended, and FNV-1a over the world's numbers and the marks of
the picture. The numbers are in the order of agent/environments/; how the worlds are held here is another matter: sets
of places, and objects in lists. Draws: Philox, as core/philox.hpp says. Actions come from a simple player that draws
some of them, so that episodes last and things happen.
"""
import json
import pathlib

from make_drift_goldens import Draws

SIDE, ENVIRONMENT, TEST = 10, 6, 5
STAY, LEFT, RIGHT, UP, DOWN = range(5)
STEP = {LEFT: (-1, 0), RIGHT: (1, 0), UP: (0, -1), DOWN: (0, 1)}


def inside(x, y):
    return 0 <= x < SIDE and 0 <= y < SIDE


def clamp(v, low=0, high=SIDE - 1):
    return max(low, min(high, v))


class Falling:
    limit = 500

    def __init__(self, random):
        self.random, self.paddle, self.odd, self.things, self.kinds = random, 5, False, {}, [0] * SIDE

    def step(self, action):
        self.paddle = clamp(self.paddle + {LEFT: -1, RIGHT: 1}.get(action, 0))
        fallen = {column: row + 1 for column, row in self.things.items()}
        self.things = {column: row for column, row in fallen.items() if row < 9}
        if fallen.get(self.paddle) == 9:
            if self.kinds[self.paddle]:
                return -1, True
            reward = 1
        else:
            reward = 0
        self.odd = not self.odd
        if not self.odd:
            column, bad = self.random.below(10), self.random.below(3) == 0
            if column not in self.things:
                self.things[column], self.kinds[column] = 0, int(bad)
        return reward, False

    def numbers(self):
        return [self.paddle, int(self.odd)] + [self.things.get(c, -1) for c in range(SIDE)] + self.kinds

    def marks(self):
        return {(0, self.paddle, 9)} | {(1 + self.kinds[c], c, r) for c, r in self.things.items()}

    def wish(self):
        good = [(-r, abs(c - self.paddle), c) for c, r in self.things.items() if not self.kinds[c]]
        if not good:
            return STAY
        column = min(good)[2]
        return LEFT if column < self.paddle else RIGHT if column > self.paddle else STAY


class Lanes:
    limit = 500

    def __init__(self, random):
        self.x, self.y = 5, 9
        self.cars = []
        for row in range(1, 9):
            at, right, period = random.below(10), random.below(2), 1 + random.below(4)
            self.cars.append({"row": row, "at": at, "way": 1 if right else -1, "period": period, "wait": period})

    def is_hit(self):
        return any((car["at"], car["row"]) == (self.x, self.y) for car in self.cars)

    def step(self, action):
        dx, dy = STEP.get(action, (0, 0))
        self.x, self.y = clamp(self.x + dx), clamp(self.y + dy)
        if self.is_hit():
            self.y = 9
        for car in self.cars:
            car["wait"] -= 1
            if car["wait"] == 0:
                car["wait"] = car["period"]
                car["at"] = (car["at"] + car["way"]) % SIDE
        if self.is_hit():
            self.y = 9
        if self.y == 0:
            self.y = 9
            return 1, False
        return 0, False

    def numbers(self):
        return ([self.x, self.y] + [c["at"] for c in self.cars] + [int(c["way"] == 1) for c in self.cars] +
                [c["period"] for c in self.cars] + [c["wait"] for c in self.cars])

    def marks(self):
        made = {(0, self.x, self.y)}
        for car in self.cars:
            made.add((2, car["at"], car["row"]))
            for length in range(1, 6 - car["period"]):
                made.add((3, (car["at"] - car["way"] * length) % SIDE, car["row"]))
        return made

    def wish(self):
        return UP


class Shooter:
    limit = 1000

    def __init__(self, random):
        self.random, self.gun, self.shot, self.bomb = random, 5, None, None
        self.last_shot, self.last_bomb = 0, 0  # their columns stay in the numbers
        self.wave()

    def wave(self):
        self.left, self.top, self.way = self.random.below(5), 0, 1 if self.random.below(2) else -1
        self.wait, self.alive = 4, {(c, r) for c in range(6) for r in range(4)}

    def hit(self):
        if self.shot is None:
            return 0
        place = self.shot[0] - self.left, self.shot[1] - self.top
        if place not in self.alive:
            return 0
        self.alive.remove(place)
        self.shot = None
        return 1

    def step(self, action):
        self.gun = clamp(self.gun + {LEFT: -1, RIGHT: 1}.get(action, 0))
        if action == UP and self.shot is None:
            self.shot, self.last_shot = (self.gun, 9), self.gun
        if self.shot:
            self.shot = (self.shot[0], self.shot[1] - 1) if self.shot[1] > 0 else None
        reward = self.hit()
        if self.bomb:
            self.bomb = self.bomb[0], self.bomb[1] + 1
            if self.bomb[1] == 9:
                is_hit, self.bomb = self.bomb[0] == self.gun, None
                if is_hit:
                    return reward, True
        self.wait -= 1
        if self.wait == 0:
            self.wait = 4
            if 0 <= self.left + self.way <= 4:
                self.left += self.way
            else:
                self.way, self.top = -self.way, self.top + 1
        reward += self.hit()
        if self.alive and self.top + max(r for _, r in self.alive) >= 9:
            return reward, True
        if not self.alive:
            self.wave()
        if self.bomb is None and self.random.below(8) == 0:
            column = self.random.below(6)
            rows = [r for c, r in self.alive if c == column]
            if rows:
                self.bomb = self.left + column, self.top + max(rows)
                self.last_bomb = self.bomb[0]
        return reward, False

    def numbers(self):
        return ([self.gun, self.last_shot, self.shot[1] if self.shot else -1, self.last_bomb,
                 self.bomb[1] if self.bomb else -1, self.left, self.top, int(self.way == 1), self.wait] +
                [int((c, r) in self.alive) for r in range(4) for c in range(6)])

    def marks(self):
        made = {(0, self.gun, 9), (3, 9 if self.way == 1 else 0, self.wait)}
        made |= {(1, self.left + c, self.top + r) for c, r in self.alive}
        if self.shot:
            made.add((0, *self.shot))
        if self.bomb:
            made.add((2, *self.bomb))
        return made

    def wish(self):
        if self.bomb and self.bomb[0] == self.gun and self.bomb[1] > 5:
            return RIGHT if self.gun < 9 else LEFT
        if any(self.left + c == self.gun for c, _ in self.alive) and self.shot is None:
            return UP
        return LEFT if self.gun > self.left + 2 else RIGHT


class Snake:
    limit = 1000

    def __init__(self, random):
        self.random, self.body, self.way = random, [(5, 5), (4, 5), (3, 5)], RIGHT
        self.feed()

    def feed(self):
        free = [(x, y) for y in range(SIDE) for x in range(SIDE) if (x, y) not in self.body]
        self.food = free[self.random.below(len(free))] if free else None

    def ahead(self, way):
        return self.body[0][0] + STEP[way][0], self.body[0][1] + STEP[way][1]

    def is_opposite(self, way):
        return STEP[way] == (-STEP[self.way][0], -STEP[self.way][1])

    def step(self, action):
        if action != STAY and not self.is_opposite(action):
            self.way = action
        head = self.ahead(self.way)
        eats = head == self.food
        rest = self.body if eats else self.body[:-1]
        if not inside(*head) or head in rest:
            return -1, True
        self.body = [head] + rest
        if not eats:
            return 0, False
        self.feed()
        return 1, len(self.body) == SIDE * SIDE

    def numbers(self):
        cells = [x + SIDE * y for x, y in self.body]
        food = self.food[0] + SIDE * self.food[1] if self.food else -1
        return [len(cells), self.way - 1, food] + cells + [-1] * (SIDE * SIDE - len(cells))

    def marks(self):
        made = {(0, *self.body[0]), (3, *self.body[-1])} | {(2, x, y) for x, y in self.body[1:]}
        return made | ({(1, *self.food)} if self.food else set())

    def wish(self):
        good = [way for way in STEP if not self.is_opposite(way) and inside(*self.ahead(way)) and
                self.ahead(way) not in self.body[:-1]]
        if not good:
            return STAY
        return min(good, key=lambda way: sum(abs(a - b) for a, b in zip(self.ahead(way), self.food)))


class Chase:
    """The world alone: the turn is a matter of steps, and never changes in a rollout."""
    limit = 32

    def __init__(self, random):
        self.random, self.point = random, (random.below(64), random.below(64))
        self.put()

    def put(self):
        self.target = self.point
        while self.target == self.point:
            self.target = self.random.below(64), self.random.below(64)

    def right(self):
        dx, dy = (t - p for t, p in zip(self.target, self.point))
        if abs(dx) >= abs(dy):
            return 1 if dx > 0 else 0
        return 3 if dy > 0 else 2

    def step(self, action):
        ways = [(-1, 0), (1, 0), (0, -1), (0, 1), (0, 0)]
        reward = int(action == self.right())
        self.point = tuple(clamp(p + 2 * d, 0, 63) for p, d in zip(self.point, ways[action]))
        self.target = tuple(clamp(t + d, 0, 63) for t, d in zip(self.target, ways[self.random.below(5)]))
        if self.target == self.point:
            self.put()
        return reward, False

    def numbers(self):
        return [*self.point, *self.target]

    def marks(self):
        return set()

    def wish(self):
        return self.right()


def fnv(numbers):
    digest = 0xcbf29ce484222325
    for number in numbers:
        for byte in (number & 0xffffffff).to_bytes(4, "little"):
            digest = (digest ^ byte) * 0x100000001b3 % 2 ** 64
    return f"{digest:016x}"


def rollout(game, seed, episode, steps):
    world = game(Draws(seed, episode, ENVIRONMENT))
    player = Draws(seed, 1000 + episode, TEST)
    begin, taken, rewards, digests, end = world.numbers(), [], [], [], "limit"
    choices = 4 if game is Chase else 5
    for _ in range(steps):
        draw = player.below(8)
        action = player.below(choices) if draw == 0 else world.wish()
        reward, is_over = world.step(action)
        taken.append(action)
        rewards.append(reward)
        marks = sorted(100 * plane + 10 * y + x for plane, x, y in world.marks())
        digests.append(fnv(world.numbers() + marks))
        if is_over:
            end = "terminated"
            break
    return {"seed": seed, "episode": episode, "begin": begin, "actions": taken, "rewards": rewards, "end": end,
            "digests": digests, "numbers": world.numbers()}


def main():
    games = {"falling": Falling, "lanes": Lanes, "shooter": Shooter, "snake": Snake, "chase": Chase}
    made = {name: [rollout(game, 2 ** 40 + 7, episode, 31 if name == "chase" else 300) for episode in range(6)]
            for name, game in games.items()}
    path = pathlib.Path(__file__).parent.parent / "tests/data/grid_games.json"
    path.write_text(json.dumps(made, separators=(",", ":")) + "\n")
    for name, rollouts in made.items():
        print(name, [(len(r["actions"]), sum(r["rewards"]), r["end"]) for r in rollouts])


if __name__ == "__main__":
    main()
