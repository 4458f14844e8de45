# SPDX-License-Identifier: Apache-2.0
#
# cmake -DKERNEL_DIR=folder -DOUTPUT=file.c -P embed.cmake
#
# Writes the table of src/core/kernel_source.h: an entry for every KERNEL_DIR/*.cl under the stem of its name ("softmax") and for
# every *.clh under its whole name ("common.clh"). Byte arrays, because C compilers need not take string literals over 4095 bytes.
cmake_minimum_required(VERSION 3.16)

file(GLOB files ${KERNEL_DIR}/*.cl ${KERNEL_DIR}/*.clh)
set(arrays "")
set(entries "")
set(count 0)
foreach(file ${files})
  get_filename_component(name ${file} NAME)
  string(REGEX REPLACE "\\.cl$" "" name ${name})
  file(SIZE ${file} length)
  file(READ ${file} bytes HEX)
  # Two passes: lines of 24 bytes, then each byte; the last byte ends the text.
  string(REGEX REPLACE "(................................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "/* ${name} */\nstatic const unsigned char source_${count}[] = {\n${bytes}0x00};\n\n")
  string(APPEND entries "    {\"${name}\", (const char *)source_${count}, ${length}},\n")
  math(EXPR count "${count} + 1")
endforeach()

# A last entry without a name keeps the table valid C when there is no kernel at all; it is not counted.
file(WRITE ${OUTPUT} "/* Generated from kernels/ by embed.cmake. */
#include \"core/kernel_source.h\"

${arrays}const clattn_kernel_source clattn_kernel_sources[] = {
${entries}    {NULL, NULL, 0},
};
const size_t clattn_kernel_source_count = ${count};
")
