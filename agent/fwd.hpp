// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace weft::agent {

class Agent;
class ReplayableMesh;
class Replay;
struct Recovery;

}  // namespace weft::agent
