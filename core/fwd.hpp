// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace weft {
class Error;
enum class Errc : int;
enum class Dtype : int;
enum class Granularity : int;
enum class Activations : int;
struct Encoding;
struct Coord;
struct GridShape;
struct Hash128;
class RandomStream;
class StateHasher;
template <class T>
class AlignedBuffer;
template <class T>
class Result;
}  // namespace weft
