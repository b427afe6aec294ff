// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace weft::kernels {
enum class Activation : int;
enum class BinaryOp : int;
enum class Isa : int;
struct ConstMatrixView;
struct MatrixView;
struct ConstPanels;
struct Panels;
struct ConstWeight;
struct Weight;
struct GatedWeights;
struct QuantizedRows;
struct AttentionShape;
struct Rope;
class FlushSubnormals;
class OpStream;
class CpuStream;
}  // namespace weft::kernels
