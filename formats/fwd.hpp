// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace weft::formats {
class EntityFile;
class TensorFile;
class LoomEntityFile;
enum class CsvHeader;
enum class Packing : int;
struct Tensor;
struct CsvOptions;
struct CsvTable;
struct EntityLimits;
struct EntityOptions;
struct LoomBlob;
}  // namespace weft::formats
