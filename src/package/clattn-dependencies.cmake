# SPDX-License-Identifier: Apache-2.0
#
# Finds what clattn links with, as targets OpenCL::OpenCL, clattn_clblast and clattn_jansson. Used by the build and, installed
# beside clattn-config.cmake, by those who link with clattn. Headers and libraries are looked up themselves: CLBlast's own
# configuration file fixes the path of one OpenCL library, and jansson's exists on some systems only.

# clattn_find_library(NAME target header library module): header and library, cached as NAME_INCLUDE_DIR and NAME_LIBRARY;
# pkg-config's answer on `module` is a hint.
function(clattn_find_library name target header library module)
  if(TARGET ${target})
    return()
  endif()
  find_package(PkgConfig QUIET)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(CLATTN_PC_${name} QUIET ${module})
  endif()
  find_path(${name}_INCLUDE_DIR ${header} HINTS ${CLATTN_PC_${name}_INCLUDE_DIRS})
  find_library(${name}_LIBRARY ${library} HINTS ${CLATTN_PC_${name}_LIBRARY_DIRS})
  mark_as_advanced(${name}_INCLUDE_DIR ${name}_LIBRARY)
  if(${name}_INCLUDE_DIR AND ${name}_LIBRARY)
    # GLOBAL: a parent project that links with a static clattn must see it.
    add_library(${target} INTERFACE IMPORTED GLOBAL)
    set_target_properties(${target} PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "${${name}_INCLUDE_DIR}" INTERFACE_LINK_LIBRARIES "${${name}_LIBRARY}")
  endif()
endfunction()

# clattn_find_dependencies([OpenCL] [CLBlast] [jansson]): sets clattn_MISSING to what was not found, in words, or to "".
macro(clattn_find_dependencies)
  set(clattn_MISSING "")
  foreach(clattn_dependency ${ARGN})
    if(clattn_dependency STREQUAL "OpenCL")
      if(NOT TARGET OpenCL::OpenCL)
        find_package(OpenCL QUIET)
        if(TARGET OpenCL::OpenCL)
          set_target_properties(OpenCL::OpenCL PROPERTIES IMPORTED_GLOBAL TRUE)
        else()
          list(APPEND clattn_MISSING "OpenCL (or set OpenCL_INCLUDE_DIR and OpenCL_LIBRARY)")
        endif()
      endif()
    elseif(clattn_dependency STREQUAL "CLBlast")
      clattn_find_library(CLBLAST clattn_clblast clblast_c.h clblast clblast)
      if(NOT TARGET clattn_clblast)
        list(APPEND clattn_MISSING "CLBlast (or set CLBLAST_INCLUDE_DIR and CLBLAST_LIBRARY)")
      endif()
    elseif(clattn_dependency STREQUAL "jansson")
      clattn_find_library(JANSSON clattn_jansson jansson.h jansson jansson)
      if(NOT TARGET clattn_jansson)
        list(APPEND clattn_MISSING "jansson (or set JANSSON_INCLUDE_DIR and JANSSON_LIBRARY)")
      endif()
    endif()
  endforeach()
  string(REPLACE ";" ", " clattn_MISSING "${clattn_MISSING}")
endmacro()
